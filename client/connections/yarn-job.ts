import { setTimeout as delay } from 'node:timers/promises';
import { isOver, type JobInfo, jobInfo, type YarnReport, yarnReport } from '../../conf/status/job-info.ts';
import type { HistoryEntry, JobResult, JobStatus } from '../../conf/status/status.ts';
import { isNamedFileSystem } from '../../hadoop/configuration/file-systems/named-servers.ts';
import { aggregatedFolders, ContainerLogs } from '../../hadoop/logs/container-logs.ts';
import { ResourceManager } from '../../hadoop/yarn/resource-manager.ts';
import type { Application } from '../../hadoop/yarn/resource-manager-answers.ts';
import { TonyError } from '../../platform/errors.ts';
import { parseJson } from '../../platform/json-value.ts';
import { suggest } from '../../platform/text/suggest.ts';
import { joinUri } from '../../storage/uri.ts';
import { applicationOf, unreportedJobOf } from '../cluster/application-of-status.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { MASTER_ANSWER_MS, MasterSilence } from '../cluster/master-silence.ts';
import { resultOf, unknownQueue, waitingReason } from '../cluster/yarn-diagnostics.ts';
import { jobOutput } from '../job/freeze-job.ts';
import { type LocatedContainer, orderContainers } from '../job/task-containers.ts';
import type { MasterShortages } from '../plan/master-shortage.ts';
import { ClusterHistory, inferredMasters } from '../records/cluster-history.ts';
import { findPlace } from '../records/find-place.ts';
import { ownHistoryFolders } from '../records/history-place.ts';
import { readEvents, readFinal, readRecord } from '../records/job-record.ts';
import type { LogPiece } from '../records/log-piece.ts';
import { LARGEST_STATUS, parseLive } from '../records/status-schema.ts';
import { endedStatus, storedStatus } from '../records/stored-status.ts';
import type { JobConnection, KillReason, LogSource } from './job-connection.ts';
import { readOutput } from './job-output-file.ts';
import { ifAvailable, ifReadable, type JobRecords } from './job-records.ts';
import type { StartDeadline } from './start-deadline.ts';

/** Interval (ms) between requests to the ResourceManager while the ApplicationMaster responds. */
const APPLICATION_EVERY_MS = 2_000;
/**
 * Maximum time (ms) to wait for log aggregation after a job has ended, for each of YARN's aggregation states. Some clusters never leave the
 * NOT_START state.
 */
const COLLECTING_MS: Readonly<Record<string, number>> = { NOT_START: 15_000, RUNNING: 60_000 };
const COLLECTED_EVERY_MS = 300;
/** Time (ms) for a job that its ApplicationMaster has ended to appear as ended in YARN, and the interval between requests in this time. */
const UNREGISTERED_MS = 10_000;
const KILLED_EVERY_MS = 200;
/** Interval (ms) between requests for the list of nodes, unless a container is on a node that the list lacks. */
const NODES_EVERY_MS = 60_000;
/** The client does not wait for log aggregation if a job has been over for this long (ms). */
const LONG_COLLECTED_MS = 120_000;
/** Replaces an answer that is not JSON or too large. It is not a valid answer to any request. */
const UNREADABLE = 'unreadable';
const ENDED = new Set(['FINISHED', 'FAILED', 'KILLED']);

/** Connection to a job on a cluster. Reads from the ResourceManager, the ApplicationMaster and the history. */
export class YarnJob implements JobConnection {
  readonly id: string;
  readonly trackingUrl: string;
  readonly records: JobRecords;
  readonly #cluster: HadoopCluster;
  readonly #resourceManager: ResourceManager;
  /**
   * Client with a short timeout for requests that the ResourceManager forwards to the ApplicationMaster. With a long timeout, an
   * unresponsive ApplicationMaster would look like an unreachable ResourceManager.
   */
  readonly #hasty: ResourceManager;
  readonly #silence = new MasterSilence();
  readonly #containerLogs: ContainerLogs;
  #shortages: MasterShortages | null = null;
  #application: Application | null = null;
  #applicationAt = Number.NEGATIVE_INFINITY;
  #last: JobStatus | null = null;
  #nodes: ReadonlyMap<string, string> = new Map();
  #nodesAt = Number.NEGATIVE_INFINITY;
  #tidied = false;
  /** Whether the ResourceManager no longer has a record of the application. */
  #forgotten = false;
  /** Whether the ApplicationMaster rejected this user, who is not in the job's `acls.view`. */
  #hidden = false;
  /** Whether the ApplicationMaster's last answer was not a status. */
  #unreadable = false;
  #history: string | null = null;

  readonly #startDeadline: StartDeadline | null;

  /**
   * @param cluster the job's cluster, closed by `close`
   * @param startDeadline time limit for the ApplicationMaster to start. If an observation finds that the limit has passed, it kills the
   *   job.
   */
  constructor(jobId: string, cluster: HadoopCluster, startDeadline: StartDeadline | null = null) {
    this.#startDeadline = startDeadline;
    this.id = jobId;
    this.trackingUrl = `${cluster.configuration.webProxies[0]}/proxy/${jobId}/`;
    this.#cluster = cluster;
    this.#resourceManager = ResourceManager.of(cluster.configuration, cluster.user);
    const hasty = { maxWaitMs: MASTER_ANSWER_MS, timeoutMs: MASTER_ANSWER_MS };
    this.#hasty = ResourceManager.of(cluster.configuration, cluster.user, hasty);
    this.#containerLogs = new ContainerLogs({ configuration: cluster.configuration, user: cluster.user });
    this.records = {
      storage: cluster.storage,
      user: cluster.user,
      place: async () => {
        const { user } = await this.#known();
        const folder = await ifReadable(this.#historyFolder());
        return folder === null ? null : { jobId, user, folder };
      },
      staged: () => joinUri(cluster.root, 'jobs', jobId),
      ask: (resource) => this.#ask(resource),
      yarn: () => this.#facts(),
      logs: () => ifReadable(this.#aggregatedLogs()),
      mayRead: async (uri) => (await this.#known()).user === cluster.user || isNamedFileSystem(cluster.configuration, uri),
    };
  }

  async observe(): Promise<JobInfo> {
    const recent = performance.now() - this.#applicationAt < APPLICATION_EVERY_MS ? this.#application : null;
    const live = recent?.state === 'RUNNING' ? await this.#askMaster() : null;
    if (recent !== null && live !== null && !isFinal(live)) {
      return this.#info(recent, live, { masterSilentMs: null });
    }
    const application = await this.#report();
    if (this.#startDeadline?.isMissed(application.state)) {
      await this.kill('start-timeout');
      return this.observe();
    }
    if (!ENDED.has(application.state)) {
      if (application.state !== 'RUNNING') {
        this.#silence.end();
      }
      const status = live ?? (application.state === 'RUNNING' ? await this.#askMaster() : null) ?? this.#last;
      const masterSilentMs = this.#silence.ms;
      return status === null
        ? unreportedJobOf(application, { message: await this.#waitingReason(application), masterSilentMs, urls: this.#urls(true) })
        : this.#info(application, status, { masterSilentMs });
    }
    const result = await this.#explained(application);
    const status = (await this.#final()) ?? this.#lastAtEnd(application, result) ?? (await this.#reconstructed(application, result));
    await this.#tidy(application);
    if (status === null) {
      return unreportedJobOf(application, { ...result, urls: this.#urls(false) });
    }
    return this.#info(application, { ...status, ...result, finishedAt: status.finishedAt ?? application.finishedAt });
  }

  #info(application: Application, status: JobStatus, { masterSilentMs = null }: Partial<Pick<JobInfo, 'masterSilentMs'>> = {}): JobInfo {
    // A synthetic report about a job that the ResourceManager no longer lists contains nothing that comes from YARN.
    const yarn = this.#forgotten ? null : yarnReport(application);
    const job = jobInfo(status, { masterSilentMs, yarn });
    return { ...job, urls: this.#urls(!isOver(job)) };
  }

  #urls(isRunning: boolean): JobInfo['urls'] {
    return { pages: isRunning ? this.trackingUrl : null, tracking: this.trackingUrl };
  }

  async #waitingReason(application: Application): Promise<string> {
    if (this.#hidden) {
      return `${this.id} is a job of ${application.user}, and ${this.#cluster.user} is not in its acls.view.`;
    }
    if (this.#unreadable && application.state === 'RUNNING') {
      return `The ApplicationMaster of ${this.id} does not send a status that tony-ts can read. It may belong to another program or version.`;
    }
    this.#shortages ??= new (await import('../plan/master-shortage.ts')).MasterShortages(this.#hasty, this.#cluster.user);
    return waitingReason(application.diagnostics, await this.#shortages.of(application));
  }

  async pages(): Promise<string> {
    return this.trackingUrl;
  }

  async kill(by: KillReason = 'order'): Promise<boolean> {
    const application = await this.#report();
    if (ENDED.has(application.state)) {
      return false;
    }
    const { user } = this.#cluster;
    const reasons: Readonly<Record<KillReason, string>> = {
      order: `Killed by ${user} with tony-ts kill.`,
      interrupt: `Interrupted by ${user}.`,
      'start-timeout': this.#startDeadline?.reason ?? '',
    };
    // Only the job's user can ask its ApplicationMaster.
    const mayAsk = by !== 'start-timeout' && application.state === 'RUNNING' && application.user === user;
    if (mayAsk && (await this.#killedByMaster(reasons[by]))) {
      return true;
    }
    const state = await this.#resourceManager.kill(this.id, reasons[by]).catch(async (error: unknown) => {
      throw await this.#killRefused(error);
    });
    this.#applicationAt = Number.NEGATIVE_INFINITY;
    return state !== 'FINISHED' && state !== 'FAILED';
  }

  /** Returns true if the ApplicationMaster has ended the job, after the grace periods of its programs. */
  async #killedByMaster(reason: string): Promise<boolean> {
    const { requestKill } = await import('./kill-request.ts');
    const withinMs = await requestKill(this.records, reason);
    const deadline = performance.now() + (withinMs ?? 0) + UNREGISTERED_MS;
    while (withinMs !== null && performance.now() < deadline) {
      if (ENDED.has((await this.#report()).state)) {
        return true;
      }
      await delay(KILLED_EVERY_MS);
    }
    return false;
  }

  /** YARN's message contains Java class names, so replace it with a clearer one. */
  async #killRefused(error: unknown): Promise<unknown> {
    if (!(error instanceof TonyError) || error.code !== 'RM_DENIED') {
      return error;
    }
    const { user, queue } = await this.#known();
    const own = this.#cluster.user;
    if (user === own) {
      return error;
    }
    return new TonyError('RM_DENIED', `${this.id} is a job of ${user}, and ${own} is not allowed to kill it.`, {
      hint: `Ask ${user}, an administrator of queue ${queue}, or a cluster administrator to kill the job. In job.yaml, acls.modify lists other users who may kill a job.`,
      cause: error,
    });
  }

  async logs(): Promise<LogSource[]> {
    const application = await this.#afterAggregation();
    const { tasks } = await this.observe();
    const history = await this.#readEvents();
    const containers = [...(await this.#masters(history)), ...orderContainers(tasks, history)];
    const nodes = await this.#nodeAddresses(containers.flatMap(({ node }) => node ?? []));
    return containers.map(({ task, containerId, node }) => {
      const owner = { containerId, node, nodeHttp: nodes.get(node ?? '') ?? null, owner: application.user };
      return {
        task,
        containerId,
        read: async (file, from): Promise<LogPiece | null> => {
          const piece = await this.#containerLogs.read(owner, file, from);
          return piece && { bytes: piece.bytes, end: piece.offset + piece.bytes.length };
        },
      };
    });
  }

  async #masters(history: readonly HistoryEntry[]): Promise<LocatedContainer[]> {
    const found = this.#forgotten
      ? inferredMasters(history).map((containerId) => ({ containerId, node: null }))
      : await this.#resourceManager.attempts(this.id);
    return found.flatMap(({ containerId, node }) => (containerId === null ? [] : [{ task: 'master', containerId, node }]));
  }

  get outputUri(): string {
    return jobOutput(this.#cluster.root, this.id);
  }

  async output(name: string, maxBytes: number): Promise<Buffer | null> {
    return readOutput(this.#cluster.storage, joinUri(this.outputUri, name), maxBytes);
  }

  close(): void {
    this.#containerLogs.close();
    this.#hasty.close();
    this.#resourceManager.close();
    this.#cluster.close();
  }

  /**
   * Waits until all nodes have copied their logs to HDFS, because the output of some tasks may be missing before that. Gives up after the
   * time limits in COLLECTING_MS.
   * @returns the application
   */
  async #afterAggregation(): Promise<Application> {
    const begun = performance.now();
    for (;;) {
      const application = await this.#report();
      const fresh = application.finishedAt !== null && Date.now() - application.finishedAt < LONG_COLLECTED_MS;
      const maxWaitMs = COLLECTING_MS[application.logAggregation ?? ''] ?? 0;
      if (!ENDED.has(application.state) || !fresh || performance.now() - begun >= maxWaitMs) {
        return application;
      }
      await delay(COLLECTED_EVERY_MS);
    }
  }

  async #report(): Promise<Application> {
    try {
      this.#application = await this.#resourceManager.application(this.id);
    } catch (error) {
      if (error instanceof TonyError && error.code === 'JOB_NOT_FOUND') {
        this.#application = this.#forgotten ? this.#application : await ifReadable(this.#fromHistory());
        if (this.#application !== null) {
          return this.#application;
        }
        throw new TonyError('JOB_NOT_FOUND', `The ResourceManager has no application ${this.id}.`, {
          cause: error,
        });
      }
      throw error;
    }
    this.#applicationAt = performance.now();
    return this.#application;
  }

  /** Returns the application from its history. Used after the ResourceManager has removed the application. */
  async #fromHistory(): Promise<Application | null> {
    const store = await ClusterHistory.open(this.#cluster);
    const place = await findPlace(store, this.id);
    const record = await readRecord(store.storage, place, true);
    if (record.final === null && record.entries.length === 0) {
      return null;
    }
    this.#forgotten = true;
    this.#history = place.folder;
    this.#last = storedStatus(record, 'forgotten');
    return applicationOf(this.#last);
  }

  async #askMaster(): Promise<JobStatus | null> {
    const answer = await this.#ask('job');
    const status = parseLive(answer, this.id);
    this.#unreadable = answer !== null && status === null;
    if (status !== null) {
      this.#last = status;
    }
    return status;
  }

  /** Sends a request to the ApplicationMaster. Returns null if the ApplicationMaster does not respond. */
  async #ask(resource: string): Promise<unknown> {
    const answer = await this.#silence.ask(() => this.#hasty.proxy(this.id, `tony/api/v1/${resource}`));
    this.#hidden = answer?.status === 403;
    if (answer?.status !== 200) {
      return null;
    }
    return answer.body.length <= LARGEST_STATUS ? (parseJson(answer.body) ?? UNREADABLE) : UNREADABLE;
  }

  async #known(): Promise<Application> {
    return this.#application ?? this.#report();
  }

  async #facts(): Promise<YarnReport | null> {
    const [application, attempts] = await Promise.all([this.#report(), this.#resourceManager.attempts(this.id).catch(() => [])]);
    return this.#forgotten ? null : { ...yarnReport(application), attempts };
  }

  /** Returns the HDFS folder with the aggregated logs, or null if the nodes have not created the folder yet. */
  async #aggregatedLogs(): Promise<string | null> {
    const { user } = await this.#known();
    const masters = await this.#masters(this.#forgotten ? await this.#readEvents() : []).catch(() => []);
    const containerId = masters[0]?.containerId;
    if (containerId === undefined) {
      return null;
    }
    for (const uri of aggregatedFolders(this.#cluster.configuration, { containerId, owner: user })) {
      if ((await this.#cluster.storage.stat(uri).catch(() => null)) !== null) {
        return uri;
      }
    }
    return null;
  }

  /** Returns the stored final status, or null if the file does not exist or cannot be read. */
  async #final(): Promise<JobStatus | null> {
    const folder = await ifAvailable(this.#historyFolder());
    if (folder === null) {
      return null;
    }
    const read = await ifAvailable(readFinal(this.#cluster.storage, { folder, jobId: this.id }));
    return read === null || read.final === 'damaged' ? null : read.final;
  }

  /** Returns the last known status of a job that has ended without a final status, or null if there is none. */
  #lastAtEnd({ finishedAt }: Application, result: JobResult): JobStatus | null {
    this.#last = this.#last && endedStatus(this.#last, result, finishedAt);
    return this.#last;
  }

  /** Returns the status of an ended job without a final status, derived from its stored events, or null if there are none. */
  async #reconstructed(application: Application, result: JobResult): Promise<JobStatus | null> {
    const folder = await ifAvailable(this.#historyFolder());
    if (folder === null) {
      return null;
    }
    const place = { jobId: this.id, user: application.user, folder };
    const record = await ifAvailable(readRecord(this.#cluster.storage, place, true));
    if (record === null || record.entries.length === 0) {
      return null;
    }
    this.#last = storedStatus(record, { ...application, result });
    return this.#last;
  }

  /** Removes a killed job's staging folder, because its ApplicationMaster had no time to remove it. */
  async #tidy(application: Application): Promise<void> {
    if (this.#tidied || application.user !== this.#cluster.user) {
      return;
    }
    this.#tidied = true;
    await this.#cluster.storage.remove(joinUri(this.#cluster.root, 'jobs', this.id)).catch(() => false);
  }

  /** Returns the stored events, or [] if the history does not exist or cannot be read. */
  async #readEvents(): Promise<readonly HistoryEntry[]> {
    const folder = await ifAvailable(this.#historyFolder());
    return folder === null ? [] : ((await ifAvailable(readEvents(this.#cluster.storage, folder)))?.entries ?? []);
  }

  /** Returns the job's history folder, or null if it does not exist yet. */
  async #historyFolder(): Promise<string | null> {
    if (this.#history !== null || this.#application === null) {
      return this.#history;
    }
    const job = { user: this.#application.user, jobId: this.id };
    for (const folder of await ownHistoryFolders(this.#cluster.storage, await this.#cluster.keepingSite(), this.#cluster, job)) {
      if ((await this.#cluster.storage.list(folder)).length > 0) {
        this.#history = folder;
        break;
      }
    }
    return this.#history;
  }

  async #explained(application: Application): Promise<JobResult> {
    const result = resultOf(application);
    const queue = unknownQueue(application.diagnostics);
    if (queue === undefined) {
      return result;
    }
    const queues = (await this.#resourceManager.queues().catch(() => [])).map(({ name }) => name);
    if (queues.length === 0) {
      return result;
    }
    const meant = suggest(queue, queues);
    const known = `The cluster has: ${queues.join(', ')}.`;
    return { ...result, message: `${result.message} ${meant === undefined ? known : `Did you mean ${meant}? ${known}`}` };
  }

  /**
   * Returns the web addresses of NodeManagers, keyed by node ID. The addresses come from the ResourceManager and not from the job's status,
   * because the login sends the user's identity to them.
   */
  async #nodeAddresses(wanted: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const isFresh = performance.now() - this.#nodesAt < NODES_EVERY_MS;
    if (this.#forgotten || wanted.length === 0 || (isFresh && wanted.every((node) => this.#nodes.has(node)))) {
      return this.#nodes;
    }
    const nodes = await this.#resourceManager.nodes();
    this.#nodesAt = performance.now();
    this.#nodes = new Map(nodes.flatMap(({ id, nodeHttp }) => (nodeHttp === null ? [] : [[id, nodeHttp]])));
    return this.#nodes;
  }
}

function isFinal(status: JobStatus): boolean {
  return status.finishedAt !== null;
}
