import { TonyError } from '../conf/errors.ts';
import { APPLICATION_TYPE } from '../conf/job.ts';
import type { JobStatus } from '../conf/status.ts';
import { suggest } from '../conf/suggest.ts';
import { ResourceManager } from '../hadoop/resource-manager.ts';
import { type Application, LIVE_STATES } from '../hadoop/resource-manager-answers.ts';
import { type Cluster, type ClusterOptions, openCluster } from './cluster.ts';
import { checkedStatus } from './job-status.ts';
import { waitingReason } from './yarn-diagnostics.ts';

/** What a listed job may be: what YARN says before it runs, what it says itself while it does, how it ended after that. */
export const LISTED_STATES = [
  'SUBMITTED',
  'ACCEPTED',
  'STARTING',
  'WAITING',
  'RUNNING',
  'RECOVERING',
  'SUCCEEDED',
  'FAILED',
  'KILLED',
] as const;
export type ListedState = (typeof LISTED_STATES)[number];

export interface ListOptions extends ClusterOptions {
  /** Whose jobs; null is everybody's; default one's own. */
  readonly user?: string | null | undefined;
  /** Also those that have ended and that the ResourceManager still knows; default only those that are not over. */
  readonly ended?: boolean | undefined;
  /** Only jobs with this in their name, whatever its case. */
  readonly name?: string | undefined;
  readonly queue?: string | undefined;
  /** Only jobs in this state; one of an end finds those that have ended too. `WAITING` finds all of which something waits. */
  readonly state?: ListedState | undefined;
  /** At most so many, the newest. */
  readonly limit?: number | undefined;
  /** Ask those that run how they are; default only YARN is asked, and `job` is null. */
  readonly ask?: boolean | undefined;
}

export interface JobSummary extends Application {
  /** How it is, in one word. */
  readonly phase: ListedState;
  /** Why nothing of it runs, or not all; empty where that is not the case or not known. */
  readonly waiting: string;
  /** What its ApplicationMaster says while it runs; null when it was not asked, does not answer, or does not let us look. */
  readonly job: JobProgress | null;
}

/** How far a job that runs is. */
export interface JobProgress {
  readonly state: JobStatus['state'];
  readonly message: string;
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly generations: number;
  readonly tasksRunning: number;
  readonly tasks: number;
}

const ENDS: ReadonlySet<string> = new Set(['SUCCEEDED', 'FAILED', 'KILLED']);
/** Jobs that are asked how they are; of those beyond, YARN's word has to do. */
const MOST_ASKED = 200;
const ASKED_AT_ONCE = 10;
const ANSWER_MS = 2_000;

/**
 * The jobs of a cluster as its ResourceManager knows them, the newest first.
 *
 * @throws TonyError USAGE when there is no such queue, NO_HADOOP_CONF, HADOOP_CONF_INVALID, RM_UNREACHABLE, CLUSTER_SECURE
 */
export async function listJobs(options: ListOptions = {}): Promise<JobSummary[]> {
  const lister = await openLister(options);
  try {
    return await lister.list(options);
  } finally {
    lister.close();
  }
}

/** Lists a cluster's jobs again and again. Connects to nothing yet. @throws TonyError NO_HADOOP_CONF, HADOOP_CONF_INVALID, CLUSTER_SECURE */
export async function openLister(options: ClusterOptions = {}): Promise<JobLister> {
  return new JobLister(await openCluster(options));
}

export class JobLister {
  readonly #cluster: Cluster;
  readonly #resourceManager: ResourceManager;
  /** One ApplicationMaster that hangs must not hold up the list. */
  readonly #hasty: ResourceManager;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.#resourceManager = ResourceManager.of(cluster.configuration, cluster.user);
    this.#hasty = ResourceManager.of(cluster.configuration, cluster.user, { patienceMs: ANSWER_MS, timeoutMs: ANSWER_MS });
  }

  /** @throws TonyError USAGE when there is no such queue, RM_UNREACHABLE */
  async list(options: Omit<ListOptions, keyof ClusterOptions>): Promise<JobSummary[]> {
    const { name = '', queue, state, limit, ask = false } = options;
    const user = options.user === undefined ? this.#cluster.user : options.user;
    const ended = options.ended === true || (state !== undefined && ENDS.has(state));
    const applications = await this.#resourceManager.applications({
      types: [APPLICATION_TYPE],
      ...(user === null ? {} : { user }),
      ...(ended ? {} : { states: LIVE_STATES }),
    });
    if (queue !== undefined && !applications.some((each) => isQueue(each.queue, queue))) await this.#mustBeQueue(queue);
    const found = applications
      .filter((each) => each.name.toLowerCase().includes(name.toLowerCase()) && (queue === undefined || isQueue(each.queue, queue)))
      .sort((a, b) => b.startedAt - a.startedAt || (a.id < b.id ? 1 : -1));
    const mayBe = found.filter((each) => state === undefined || isIn(wordOf(each), state) || each.state === 'RUNNING');
    // Whether one that runs is in that state is known when it has said so.
    const chosen = state === undefined ? mayBe.slice(0, limit) : mayBe;
    const said = ask || isSaid(state) ? await this.#ask(chosen) : new Map<string, JobStatus>();
    return chosen
      .map((each) => summaryOf(each, said.get(each.id) ?? null))
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
    const said = new Map<string, JobStatus>();
    const next = running.values();
    const ask = async (): Promise<void> => {
      for (const { id } of next) {
        const answer = await this.#hasty.proxy(id, 'tony/api/job', { timeoutMs: ANSWER_MS }).catch(() => null);
        const status = answer?.status === 200 ? checkedStatus(jsonOf(answer.body), id) : null;
        if (status !== null) said.set(id, status);
      }
    };
    await Promise.all(Array.from({ length: ASKED_AT_ONCE }, ask));
    return said;
  }

  async #mustBeQueue(queue: string): Promise<void> {
    const queues = await this.#resourceManager.queues().catch(() => []);
    if (queues.length === 0 || queues.some(({ name, path }) => isQueue(path, queue) || name === queue)) return;
    const names = queues.map(({ name }) => name);
    const meant = suggest(queue, names);
    throw new TonyError('USAGE', `There is no queue ${queue}${meant === undefined ? '.' : `; did you mean ${meant}?`}`, {
      hint: `The cluster has: ${names.join(', ')}.`,
    });
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function summaryOf(application: Application, status: JobStatus | null): JobSummary {
  const job = status && progressOf(status);
  // An ApplicationMaster that has just said that all is over is RUNNING for YARN a moment longer.
  const phase = job?.state ?? wordOf(application);
  const waiting = job === null ? (application.state === 'ACCEPTED' ? waitingReason(application.diagnostics) : '') : waitOf(job);
  return { ...application, phase, waiting, job };
}

function waitOf({ state, message }: JobProgress): string {
  return ENDS.has(state) ? '' : message;
}

export function progressOf({ state, message, step, metrics, checkpointStep, generations, tasks }: JobStatus): JobProgress {
  const tasksRunning = tasks.filter((task) => task.state === 'running').length;
  return { state, message, step, metrics, checkpointStep, generations, tasksRunning, tasks: tasks.length };
}

/** Whether a job is one of those that are asked for. */
export function matchesListing(
  { name, queue, phase, waiting }: JobSummary,
  options: Pick<ListOptions, 'ended' | 'name' | 'queue' | 'state'>,
): boolean {
  const { state } = options;
  const named = name.toLowerCase().includes((options.name ?? '').toLowerCase());
  const queued = options.queue === undefined || isQueue(queue, options.queue);
  return (
    named &&
    queued &&
    (state === undefined ? options.ended === true || !ENDS.has(phase) : isIn(phase, state) || (state === 'WAITING' && waiting !== ''))
  );
}

/** How it ended says more than that it has. */
function wordOf({ state, finalStatus }: Application): ListedState {
  switch (state) {
    case 'FINISHED':
      return finalStatus === 'SUCCEEDED' || finalStatus === 'KILLED' ? finalStatus : 'FAILED';
    case 'NEW':
    case 'NEW_SAVING':
      return 'SUBMITTED';
    default:
      return state;
  }
}

function isIn(phase: ListedState, wanted: ListedState): boolean {
  return phase === wanted || (wanted === 'WAITING' && phase === 'ACCEPTED');
}

/** Whether only the job itself knows that it is in this state. */
function isSaid(state: ListedState | undefined): boolean {
  return state === 'STARTING' || state === 'WAITING' || state === 'RECOVERING' || state === 'RUNNING';
}

/** The ResourceManager names queues by their last part or by their whole path. */
function isQueue(actual: string, wanted: string): boolean {
  return actual === wanted || actual === `root.${wanted}` || actual.endsWith(`.${wanted}`);
}
