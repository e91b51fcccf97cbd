import { APPLICATION_TYPE } from '../../conf/job.ts';
import { jobInfo, type ListedJob, listedJob, yarnReport } from '../../conf/status/job-info.ts';
import { waitingText } from '../../conf/status/job-message.ts';
import { isEndState, type JobState, type JobStatus } from '../../conf/status/status.ts';
import { ResourceManager } from '../../hadoop/yarn/resource-manager.ts';
import { type Application, LIVE_STATES } from '../../hadoop/yarn/resource-manager-answers.ts';
import { checkOptions } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import { suggest } from '../../platform/text/suggest.ts';
import { unreportedJobOf } from '../cluster/application-of-status.ts';
import { CLUSTER_OPTIONS, type ClusterOptions, type HadoopCluster, openCluster } from '../cluster/cluster.ts';
import { MASTER_ANSWER_MS, MasterSilence } from '../cluster/master-silence.ts';
import { jobStateOf, resultOf, waitingReason } from '../cluster/yarn-diagnostics.ts';
import type { MasterShortages } from '../plan/master-shortage.ts';
import { parseLiveText } from '../records/status-schema.ts';

export interface ListOptions extends ClusterOptions {
  /**
   * Whether to list local jobs instead of a cluster's jobs. Default: false. Local jobs always belong to the caller and always report their
   * state, so `user` and `ask` do not affect them.
   */
  readonly local?: boolean | undefined;
  /** Folder for local jobs. Default: ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
  /** User whose jobs to list, or null for all users. Default: the caller. */
  readonly user?: string | null | undefined;
  /** Whether to include jobs that have ended and that the ResourceManager still lists. Default: false. */
  readonly ended?: boolean | undefined;
  /** Text that the job name must contain. The comparison ignores case. */
  readonly name?: string | undefined;
  readonly queue?: string | undefined;
  /** State that the listed jobs must have. A final state implies `ended`. `waiting` also matches jobs with a waiting task. */
  readonly state?: JobState | undefined;
  readonly limit?: number | undefined;
  /** Whether to query the ApplicationMasters of running jobs. If false, the jobs on a cluster have no `step`, `metrics` and numbers of tasks. Default: false. */
  readonly ask?: boolean | undefined;
}

/** Maximum number of jobs whose ApplicationMasters are queried. For all other jobs, the list shows YARN's state. */
const MOST_ASKED = 200;
const ASKED_AT_ONCE = 50;

/**
 * Opens a cluster so that its jobs can be listed repeatedly. Does not contact the cluster yet.
 * @throws TonyError HADOOP_CONF_NOT_FOUND, HADOOP_CONF_INVALID, KERBEROS_*
 */
export async function openLister(options: ClusterOptions = {}): Promise<JobLister> {
  checkOptions('openLister', options, CLUSTER_OPTIONS);
  return new JobLister(await openCluster(options));
}

export class JobLister {
  readonly #cluster: HadoopCluster;
  readonly #resourceManager: ResourceManager;
  /** Client with a short timeout, so that unresponsive ApplicationMasters do not delay the list. */
  readonly #hasty: ResourceManager;
  #shortages: MasterShortages | null = null;
  /** By job ID. */
  #silences: ReadonlyMap<string, MasterSilence> = new Map();

  constructor(cluster: HadoopCluster) {
    this.#cluster = cluster;
    this.#resourceManager = ResourceManager.of(cluster.configuration, cluster.user);
    this.#hasty = ResourceManager.of(cluster.configuration, cluster.user, {
      maxWaitMs: MASTER_ANSWER_MS,
      timeoutMs: MASTER_ANSWER_MS,
    });
  }

  /** @throws TonyError USAGE if the queue does not exist, RM_UNREACHABLE */
  async list(options: Omit<ListOptions, keyof ClusterOptions | 'local' | 'localRoot'>): Promise<ListedJob[]> {
    const { name = '', queue, state, limit, ask = false } = options;
    const user = options.user === undefined ? this.#cluster.user : options.user;
    const ended = options.ended === true || (state !== undefined && isEndState(state));
    const applications = await this.#resourceManager.applications({
      types: [APPLICATION_TYPE],
      ...(user === null ? {} : { user }),
      ...(ended ? {} : { states: LIVE_STATES }),
    });
    if (queue !== undefined && !applications.some((each) => isQueue(each.queue, queue))) {
      await this.#mustBeQueue(queue);
    }
    const found = applications
      .filter((each) => each.name.toLowerCase().includes(name.toLowerCase()) && (queue === undefined || isQueue(each.queue, queue)))
      .sort((a, b) => b.startedAt - a.startedAt || (a.id < b.id ? 1 : -1));
    const mayBe = found.filter((each) => state === undefined || jobStateOf(each) === state || each.state === 'RUNNING');
    // With `state`, apply the limit after the query, because YARN does not report the exact state of a running job.
    const chosen = state === undefined ? mayBe.slice(0, limit) : mayBe;
    const statuses = ask || isReportedState(state) ? await this.#ask(chosen) : new Map<string, JobStatus>();
    const shortages = ask ? await this.#shortagesOf(chosen) : new Map<string, string>();
    return chosen
      .map((each) => {
        const masterSilentMs = this.#silences.get(each.id)?.ms ?? null;
        const tracking = `${this.#cluster.configuration.webProxies[0]}/proxy/${each.id}/`;
        return listedApplication(each, statuses.get(each.id) ?? null, {
          masterSilentMs,
          shortage: shortages.get(each.id) ?? null,
          tracking,
        });
      })
      .filter((each) => matchesListing(each, { ...options, ended: true }))
      .slice(0, limit);
  }

  close(): void {
    this.#hasty.close();
    this.#resourceManager.close();
    this.#cluster.close();
  }

  async #ask(applications: readonly Application[]): Promise<Map<string, JobStatus>> {
    const running = applications.filter(({ state }) => state === 'RUNNING').slice(0, MOST_ASKED);
    const statuses = new Map<string, JobStatus>();
    const silences = new Map(running.map(({ id }) => [id, this.#silences.get(id) ?? new MasterSilence()]));
    this.#silences = silences;
    const deadline = performance.now() + MASTER_ANSWER_MS;
    const next = silences.entries();
    const ask = async (): Promise<void> => {
      for (const [id, silence] of next) {
        // No time is left, so the list shows YARN's state for the remaining jobs.
        if (performance.now() > deadline) {
          return;
        }
        const answer = await silence.ask(() => this.#hasty.proxy(id, 'tony/api/v1/job'));
        const status = answer?.status === 200 ? parseLiveText(answer.body, id) : null;
        if (status !== null) {
          statuses.set(id, status);
        }
      }
    };
    await Promise.all(Array.from({ length: ASKED_AT_ONCE }, ask));
    return statuses;
  }

  async #shortagesOf(applications: readonly Application[]): Promise<Map<string, string>> {
    const waiting = applications.filter(({ state }) => state === 'ACCEPTED').slice(0, MOST_ASKED);
    if (waiting.length === 0) {
      return new Map();
    }
    this.#shortages ??= new (await import('../plan/master-shortage.ts')).MasterShortages(this.#hasty, this.#cluster.user);
    const shortages = this.#shortages;
    const found = await Promise.all(waiting.map(async (each) => [each.id, await shortages.of(each)] as const));
    return new Map(found.flatMap(([id, text]) => (text === null ? [] : [[id, text] as const])));
  }

  async #mustBeQueue(queue: string): Promise<void> {
    const queues = await this.#resourceManager.queues().catch(() => []);
    if (queues.length === 0 || queues.some(({ name, path }) => isQueue(path, queue) || name === queue)) {
      return;
    }
    const names = queues.map(({ name }) => name);
    const meant = suggest(queue, names);
    throw new TonyError('USAGE', `The cluster has no queue ${queue}${meant === undefined ? '.' : `; did you mean ${meant}?`}`, {
      hint: `Its queues are ${names.join(', ')}.`,
    });
  }
}

/**
 * Combines the reports from YARN and the ApplicationMaster.
 * @param shortage explanation from `MasterShortages`
 */
export function listedApplication(
  application: Application,
  status: JobStatus | null,
  { masterSilentMs = null, shortage = null, tracking = null }: ListFacts = {},
): ListedJob {
  const over = isEndState(jobStateOf(application));
  const urls = { pages: over ? null : tracking, tracking };
  if (status === null) {
    const { state, diagnostics } = application;
    const message = over ? resultOf(application).message : state === 'ACCEPTED' ? waitingReason(diagnostics, shortage) : '';
    return listedJob(unreportedJobOf(application, { message, masterSilentMs, urls }));
  }
  // Prefer the ApplicationMaster's state, because YARN still reports RUNNING for a short time after a job has ended.
  return listedJob(jobInfo(status, { masterSilentMs, urls, yarn: yarnReport(application) }));
}

interface ListFacts {
  readonly masterSilentMs?: number | null;
  readonly shortage?: string | null;
  readonly tracking?: string | null;
}

export function matchesListing(job: ListedJob, options: Pick<ListOptions, 'ended' | 'name' | 'queue' | 'state'>): boolean {
  const { state } = options;
  const named = job.name.toLowerCase().includes((options.name ?? '').toLowerCase());
  const queued = options.queue === undefined || isQueue(job.queue, options.queue);
  return (
    named &&
    queued &&
    (state === undefined
      ? options.ended === true || !isEndState(job.state)
      : job.state === state || (state === 'waiting' && waitingText(job) !== ''))
  );
}

function isReportedState(state: JobState | undefined): boolean {
  return state === 'starting' || state === 'waiting' || state === 'recovering' || state === 'running';
}

/**
 * Returns true if both names refer to the same queue. The ResourceManager reports either the full path of a queue or only its last
 * component.
 */
function isQueue(actual: string, wanted: string): boolean {
  return actual === wanted || actual === `root.${wanted}` || actual.endsWith(`.${wanted}`);
}
