import { setTimeout as delay } from 'node:timers/promises';
import { TonyError } from '../conf/errors.ts';
import type { HistoryEntry, JobResult, JobStatus } from '../conf/status.ts';
import { suggest } from '../conf/suggest.ts';
import { aggregatedFolders, ContainerLogs } from '../hadoop/container-logs.ts';
import { ResourceManager } from '../hadoop/resource-manager.ts';
import type { Application } from '../hadoop/resource-manager-answers.ts';
import { joinUri } from '../storage/uri.ts';
import { historyFiles, parseEntries } from '../web/history-files.ts';
import { applicationOf } from './application-of-status.ts';
import type { Cluster } from './cluster.ts';
import { jobOutput } from './freeze-job.ts';
import { ClusterHistory, mastersBeside } from './history/cluster-history.ts';
import { historyFolders } from './history/history-place.ts';
import { readRecord } from './history/job-record.ts';
import { findPlace } from './history/open-store.ts';
import { storedStatus } from './history/stored-status.ts';
import type { JobConnection, LogPiece, LogSource, Observation } from './job-connection.ts';
import { tooLarge } from './job-output-file.ts';
import type { JobRecords, YarnFacts } from './job-records.ts';
import { checkedStatus, parseJobStatus } from './job-status.ts';
import { orderContainers, type TaskContainer } from './task-containers.ts';
import { resultOf, unknownQueue, waitingReason } from './yarn-diagnostics.ts';

/** While the ApplicationMaster answers, the ResourceManager need not be asked at each look. */
const APPLICATION_EVERY_MS = 2_000;
const MASTER_ANSWER_MS = 5_000;
/**
 * How long the nodes may take to begin to collect the logs of a job that has just ended (some clusters never do), and to do it; how often they
 * are looked for, and when they are long done.
 */
const COLLECTING_MS: Readonly<Record<string, number>> = { NOT_START: 15_000, RUNNING: 60_000 };
const COLLECTED_EVERY_MS = 300;
const LONG_COLLECTED_MS = 120_000;
const ENDED = new Set(['FINISHED', 'FAILED', 'KILLED']);

/** A job on a cluster, by what ResourceManager, ApplicationMaster and history say. */
export class YarnJob implements JobConnection {
  readonly applicationId: string;
  readonly trackingUrl: string;
  readonly records: JobRecords;
  readonly #cluster: Cluster;
  readonly #resourceManager: ResourceManager;
  readonly #containerLogs: ContainerLogs;
  #application: Application | null = null;
  #applicationAt = Number.NEGATIVE_INFINITY;
  #last: JobStatus | null = null;
  #tidied = false;
  /** The ResourceManager no longer knows it. */
  #forgotten = false;
  #history: string | null = null;

  /** The cluster is closed with the connection. */
  constructor(applicationId: string, cluster: Cluster) {
    this.applicationId = applicationId;
    this.trackingUrl = `${cluster.configuration.resourceManagers[0]}/proxy/${applicationId}/`;
    this.#cluster = cluster;
    this.#resourceManager = ResourceManager.of(cluster.configuration, cluster.user);
    this.#containerLogs = new ContainerLogs({ configuration: cluster.configuration, user: cluster.user });
    this.records = {
      storage: cluster.storage,
      place: async () => {
        const { user } = await this.#known();
        const folder = await this.#historyFolder().catch(unlessAway);
        return folder === null ? null : { applicationId, user, folder };
      },
      staged: () => joinUri(cluster.root, 'jobs', applicationId),
      ask: (resource) => this.#ask(resource),
      yarn: () => this.#facts(),
      logs: () => this.#collectedIn(),
    };
  }

  async observe(): Promise<Observation> {
    const recent = performance.now() - this.#applicationAt < APPLICATION_EVERY_MS ? this.#application : null;
    const live = recent?.state === 'RUNNING' ? await this.#askMaster() : null;
    if (recent !== null && live !== null && !isFinal(live)) return { phase: recent.state, waiting: '', status: live, result: null };
    const application = await this.#report();
    if (!ENDED.has(application.state)) {
      const status = live ?? (application.state === 'RUNNING' ? await this.#askMaster() : null) ?? this.#last;
      const waiting = status === null ? waitingReason(application.diagnostics) : '';
      return { phase: application.state, waiting, status, result: null };
    }
    const status = (await this.#final()) ?? this.#last;
    await this.#tidy(application);
    return { phase: application.state, waiting: '', status, result: await this.#explained(application) };
  }

  async pages(): Promise<string> {
    return this.trackingUrl;
  }

  async kill(): Promise<boolean> {
    if (ENDED.has((await this.#report()).state)) return false;
    const state = await this.#resourceManager.kill(this.applicationId, `Killed by ${this.#cluster.user} with tony-ts kill.`);
    this.#applicationAt = Number.NEGATIVE_INFINITY;
    return state !== 'FINISHED' && state !== 'FAILED';
  }

  async logs(): Promise<LogSource[]> {
    const application = await this.#collected();
    const { status } = await this.observe();
    const history = parseEntries(await this.#readEvents());
    const containers = [...(await this.#masters(history)), ...orderContainers(status, history)];
    // The history knows no web addresses; they matter only while the application runs, later its logs lie on HDFS.
    const lacking = !ENDED.has(application.state) && containers.some(({ node, nodeHttp }) => !nodeHttp && node !== null);
    const nodes = lacking ? await this.#nodeAddresses() : new Map<string, string>();
    return containers.map(({ task, containerId, node, nodeHttp }) => {
      const owner = { containerId, nodeHttp: nodeHttp || (node === null ? null : (nodes.get(node) ?? null)), owner: application.user };
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

  async #masters(history: readonly HistoryEntry[]): Promise<TaskContainer[]> {
    const found = this.#forgotten
      ? mastersBeside(history).map((containerId) => ({ containerId, nodeHttp: null }))
      : await this.#resourceManager.attempts(this.applicationId);
    return found.flatMap(({ containerId, nodeHttp }) =>
      containerId === null ? [] : [{ task: 'master', containerId, node: null, nodeHttp }],
    );
  }

  async output(name: string, maxBytes: number): Promise<Buffer | null> {
    const { storage, root } = this.#cluster;
    const uri = joinUri(jobOutput(root, this.applicationId), name);
    const size = (await storage.stat(uri))?.size ?? null;
    if (size !== null && size > maxBytes) throw tooLarge(uri, size, maxBytes);
    return size === null ? null : storage.read(uri);
  }

  close(): void {
    this.#containerLogs.close();
    this.#resourceManager.close();
    this.#cluster.close();
  }

  /**
   * The application, once its nodes have put their logs on HDFS: each does so by itself, and until the last has, some tasks would seem to have
   * written nothing. What takes longer than usual is not waited for.
   */
  async #collected(): Promise<Application> {
    const begun = performance.now();
    for (;;) {
      const application = await this.#report();
      const fresh = application.finishedAt !== null && Date.now() - application.finishedAt < LONG_COLLECTED_MS;
      const patience = COLLECTING_MS[application.logAggregation ?? ''] ?? 0;
      if (!ENDED.has(application.state) || !fresh || performance.now() - begun >= patience) return application;
      await delay(COLLECTED_EVERY_MS);
    }
  }

  async #report(): Promise<Application> {
    try {
      this.#application = await this.#resourceManager.application(this.applicationId);
    } catch (error) {
      if (error instanceof TonyError && error.code === 'APPLICATION_NOT_FOUND') {
        this.#application = this.#forgotten ? this.#application : await this.#remembered();
        if (this.#application !== null) return this.#application;
        throw new TonyError('APPLICATION_UNKNOWN', `The ResourceManager knows no application ${this.applicationId}.`, { cause: error });
      }
      throw error;
    }
    this.#applicationAt = performance.now();
    return this.#application;
  }

  /** The ResourceManager forgets old applications; what they have left behind is there longer. */
  async #remembered(): Promise<Application | null> {
    try {
      const store = await ClusterHistory.open(this.#cluster);
      const place = await findPlace(store, this.applicationId);
      const record = await readRecord(store.storage, place, true);
      if (record.final === '' && record.entries.length === 0) return null;
      this.#forgotten = true;
      this.#history = place.folder;
      this.#last = storedStatus(record, 'forgotten');
      return applicationOf(this.#last);
    } catch (error) {
      return unlessAway(error);
    }
  }

  async #askMaster(): Promise<JobStatus | null> {
    const status = checkedStatus(await this.#ask('job'), this.applicationId);
    if (status !== null) this.#last = status;
    return status;
  }

  /** What the ApplicationMaster answers; null when it does not. */
  async #ask(resource: string): Promise<unknown> {
    // One that hangs must not look like a ResourceManager that is down; that is asked next.
    const options = { timeoutMs: MASTER_ANSWER_MS };
    const answer = await this.#resourceManager.proxy(this.applicationId, `tony/api/${resource}`, options).catch(() => null);
    try {
      return answer?.status === 200 ? (JSON.parse(answer.body) as unknown) : null;
    } catch {
      return null;
    }
  }

  async #known(): Promise<Application> {
    return this.#application ?? this.#report();
  }

  async #facts(): Promise<YarnFacts | null> {
    const [application, attempts] = await Promise.all([this.#report(), this.#resourceManager.attempts(this.applicationId).catch(() => [])]);
    return this.#forgotten ? null : { ...application, attempts };
  }

  /** The folder on HDFS into which the nodes put the logs; null before they have. */
  async #collectedIn(): Promise<string | null> {
    const { user } = await this.#known();
    const masters = await this.#masters(this.#forgotten ? parseEntries(await this.#readEvents()) : []).catch(() => []);
    const containerId = masters[0]?.containerId;
    if (containerId === undefined) return null;
    try {
      const { authority, folders } = aggregatedFolders(this.#cluster.configuration, { containerId, owner: user });
      for (const folder of folders) {
        const uri = `hdfs://${authority}${folder}`;
        if ((await this.#cluster.storage.stat(uri).catch(() => null)) !== null) return uri;
      }
      return null;
    } catch (error) {
      return unlessAway(error);
    }
  }

  async #final(): Promise<JobStatus | null> {
    return parseJobStatus(await this.#readHistory('final.json'), this.applicationId);
  }

  /** Empty when there is none, or when it is another user's and not to be read: the history adds to what YARN says. */
  async #readHistory(name: string): Promise<string> {
    try {
      const folder = await this.#historyFolder();
      return folder === null ? '' : (await this.#cluster.storage.read(joinUri(folder, name))).toString();
    } catch (error) {
      if (error instanceof TonyError) return '';
      throw error;
    }
  }

  /** An ApplicationMaster that was killed could not clear its staging away. */
  async #tidy(application: Application): Promise<void> {
    if (this.#tidied || application.user !== this.#cluster.user) return;
    this.#tidied = true;
    await this.#cluster.storage.remove(joinUri(this.#cluster.root, 'jobs', this.applicationId)).catch(() => false);
  }

  async #readEvents(): Promise<string> {
    const folder = await this.#historyFolder().catch(() => null);
    const names = folder === null ? [] : await this.#cluster.storage.list(folder).catch(() => []);
    const texts = await Promise.all(
      historyFiles(
        names.map(({ name }) => name),
        'events',
      ).map(({ name }) => this.#readHistory(name)),
    );
    return texts.join('\n');
  }

  /** Null when nobody has written one yet, or it is another user's and not to be read. */
  async #historyFolder(): Promise<string | null> {
    if (this.#history !== null || this.#application === null) return this.#history;
    const job = { user: this.#application.user, applicationId: this.applicationId };
    for (const folder of historyFolders(await this.#cluster.site(), this.#cluster, job)) {
      if ((await this.#cluster.storage.list(folder)).length === 0) continue;
      this.#history = folder;
      break;
    }
    return this.#history;
  }

  async #explained(application: Application): Promise<JobResult> {
    const result = resultOf(application);
    const queue = unknownQueue(application.diagnostics);
    if (queue === undefined) return result;
    const queues = (await this.#resourceManager.queues().catch(() => [])).map(({ name }) => name);
    if (queues.length === 0) return result;
    const meant = suggest(queue, queues);
    const known = `The cluster has: ${queues.join(', ')}.`;
    return { ...result, diagnostics: `${result.diagnostics} ${meant === undefined ? known : `Did you mean ${meant}? ${known}`}` };
  }

  async #nodeAddresses(): Promise<Map<string, string>> {
    const nodes = await this.#resourceManager.nodes();
    return new Map(nodes.flatMap(({ id, nodeHttp }) => (nodeHttp === null ? [] : [[id, nodeHttp]])));
  }
}

/** A history that may not be read is none; storage that is away is another matter. */
function unlessAway(error: unknown): null {
  if (error instanceof TonyError && error.exitCode !== 3) return null;
  throw error;
}

function isFinal(status: JobStatus): boolean {
  return status.finishedAt !== null;
}
