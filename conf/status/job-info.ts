import type { Application, Attempt } from '../../hadoop/yarn/resource-manager-answers.ts';
import { isEndState, type JobState, type JobStatus, UNREPORTED } from './status.ts';

/**
 * A job, as all commands, pages and libraries show it. A list contains the same fields without `tasks`. Times are in ms since the epoch; JSON
 * output contains them as RFC 3339 strings (see `api-object.ts`).
 */
export interface JobInfo extends Omit<JobStatus, 'state' | 'createdAt' | 'startedAt' | 'progress'> {
  readonly state: JobState;
  /** Time of the submission, or null if it is unknown. */
  readonly createdAt: number | null;
  /** Time at which the ApplicationMaster started, or at which the quotas admitted the job. Null before that. */
  readonly startedAt: number | null;
  /** Completed share of the job, from 0 to 1. Null if it is unknown. */
  readonly progress: number | null;
  /** Number of running tasks, or null if no ApplicationMaster has reported the tasks. */
  readonly tasksRunning: number | null;
  /** Number of all tasks, or null if no ApplicationMaster has reported the tasks. */
  readonly tasksTotal: number | null;
  /**
   * Time (ms) since an unresponsive ApplicationMaster last responded; the other values are then out of date. Null if the ApplicationMaster
   * responds, does not run, or was not queried.
   */
  readonly masterSilentMs: number | null;
  readonly urls: JobUrls;
  /** The ResourceManager's report. Null for a local job, and if the ResourceManager was not queried or no longer lists the job. */
  readonly yarn: YarnReport | null;
}

/** A job in a list. */
export type ListedJob = Omit<JobInfo, 'tasks'>;

export interface JobUrls {
  /** Address of the job's pages for a browser, with an access token if necessary. Null if the job has no pages or they are unknown. */
  readonly pages: string | null;
  /** Address of the job at YARN's proxy. Null for a local job, and if it is unknown. */
  readonly tracking: string | null;
}

/** The ResourceManager's report about an application, in YARN's own words: for example, `state` is YARN's state of the application. */
export interface YarnReport extends Omit<Application, 'id'> {
  readonly applicationId: string;
  /** Attempts of the ApplicationMaster, oldest first. Only `describe` requests them. */
  readonly attempts?: readonly Attempt[];
}

export const NO_URLS: JobUrls = { pages: null, tracking: null };

const ENDED_APPLICATION: ReadonlySet<string> = new Set(['FINISHED', 'FAILED', 'KILLED']);

/** Completes the status that an ApplicationMaster has reported or stored. YARN's report decides whose job it is. */
export function jobInfo(status: JobStatus, facts: Partial<Pick<JobInfo, 'masterSilentMs' | 'urls' | 'yarn'>> = {}): JobInfo {
  const { progress, startedAt, createdAt, ...rest } = status;
  return {
    ...rest,
    ...(facts.yarn ? identityIn(facts.yarn, status) : {}),
    createdAt: createdAt || null,
    startedAt: startedAt || null,
    progress: status.state === 'succeeded' ? 1 : (progress ?? null),
    tasksRunning: status.tasks.filter(({ state }) => state === 'running').length,
    tasksTotal: status.tasks.length,
    masterSilentMs: facts.masterSilentMs ?? null,
    urls: facts.urls ?? NO_URLS,
    yarn: facts.yarn ?? null,
  };
}

/** Returns what is known about a job whose ApplicationMaster has not reported yet. */
export function unreportedJob(known: Pick<JobInfo, 'id' | 'state'> & Partial<JobInfo>): JobInfo {
  const { id, state, ...rest } = known;
  return {
    id,
    name: '',
    user: '',
    queue: '',
    state,
    message: '',
    ...UNREPORTED,
    masterAttempt: 1,
    generations: 0,
    createdAt: null,
    startedAt: null,
    finishedAt: null,
    progress: null,
    checkpointUri: '',
    summaryUri: '',
    tasksRunning: null,
    tasksTotal: null,
    masterSilentMs: null,
    urls: NO_URLS,
    yarn: null,
    ...rest,
  };
}

function identityIn({ name, user, queue }: YarnReport, status: JobStatus): Pick<JobInfo, 'name' | 'user' | 'queue'> {
  return { name: name || status.name, user: user || status.user, queue: queueBelowRoot(queue) || status.queue };
}

/** Returns a queue as users name it in job.yaml. The ResourceManager reports either the full path or only the last component. */
export function queueBelowRoot(queue: string): string {
  return queue.replace(/^root\./, '');
}

/** Returns the ResourceManager's report in the form in which it appears in a job. */
export function yarnReport({ id, ...application }: Application): YarnReport {
  return { applicationId: id, ...application };
}

/** Returns true if an ApplicationMaster has reported the job's tasks, or the job's history contains them. */
export function isReported({ tasksTotal }: Pick<JobInfo, 'tasksTotal'>): boolean {
  return tasksTotal !== null;
}

/** Returns true if the job has ended: its ApplicationMaster has decided the result, and YARN has recorded it. */
export function isOver({ state, yarn }: Pick<JobInfo, 'state' | 'yarn'>): boolean {
  return isEndState(state) && (yarn === null || ENDED_APPLICATION.has(yarn.state));
}

/** Returns a job as it appears in a list. */
export function listedJob({ tasks: _, ...job }: JobInfo): ListedJob {
  return job;
}
