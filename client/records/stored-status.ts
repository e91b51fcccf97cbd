import type { FrozenJob } from '../../conf/job.ts';
import {
  type HistoryEntry,
  isEndState,
  isTaskOver,
  type JobResult,
  type JobStatus,
  type TaskStatus,
  UNREPORTED,
} from '../../conf/status/status.ts';
import type { FirstFailure } from '../../conf/status/task-failure.ts';
import { fullTime } from '../terminal/clock.ts';
import { tasksOf } from './recorded-tasks.ts';
import { type FinalStatus, LONGEST_NAME, LONGEST_TEXT, shortened } from './status-schema.ts';

/*
 * Derives the final status of a job from its history. Normally, final.json contains the status. final.json is missing if YARN killed the
 * job or the ApplicationMaster was lost. The status is then derived from the events and YARN's report. Files may be truncated, damaged or
 * from another version, so their content is displayed but not trusted.
 */

export interface JobRecord {
  readonly jobId: string;
  /** Owner of the history folder. Used instead of the user name in the files. */
  readonly user: string;
  readonly frozen: FrozenJob | null;
  readonly final: FinalStatus;
  readonly entries: readonly HistoryEntry[];
  /** Total length of the files, which serves as an estimate of the record's memory use. */
  readonly bytes: number;
}

export interface ClusterReport {
  readonly name: string;
  readonly queue: string;
  /** Time in ms since the epoch. */
  readonly startedAt: number;
  readonly finishedAt: number | null;
  /** Result of the job, or null while the job is running. */
  readonly result: JobResult | null;
}

/**
 * The cluster's answer about a job. `forgotten` means that the cluster has no record of the job, and `silent` means that the cluster did
 * not answer.
 */
export type ClusterAnswer = ClusterReport | 'forgotten' | 'silent';

/** Returns true if a job without a final status may still be running, or if the cluster was not asked about the job. */
export function mayRun(answer: ClusterAnswer | undefined): boolean {
  return answer === undefined || answer === 'silent' || (typeof answer === 'object' && answer.result === null);
}

/** Returns the status for the job's pages and for `history show`. */
export function storedStatus(record: JobRecord, answer: ClusterAnswer): JobStatus {
  const { user, final } = record;
  // A finished task does not use resources or send heartbeats.
  if (final !== null && final !== 'damaged') {
    return { ...final, user, tasks: final.tasks.map((one) => ({ ...one, usage: null, silentMs: null })) };
  }
  return reconstructed(record, answer);
}

/** Returns the last status of a job that YARN has ended before the ApplicationMaster could store a final status. */
export function endedStatus(last: JobStatus, { state, message }: JobResult, finishedAt: number | null): JobStatus {
  const tasks = last.tasks.map((task): TaskStatus => (isTaskOver(task.state) ? task : { ...task, state: 'stopped', silentMs: null }));
  const ended = { state, message, waitingMs: null, predecessorsEndInMs: null, failedTask: null };
  return { ...last, ...ended, finishedAt: last.finishedAt ?? finishedAt, tasks };
}

export interface JobHead {
  readonly name: string;
  readonly queue: string;
  /** Time in ms since the epoch, or null if unknown. */
  readonly submittedAt: number | null;
  readonly checkpointDir: string;
  readonly summaryDir: string;
}

export interface JobCourse {
  /** Time of the first event in ms since the epoch, or 0 if there are no events. */
  readonly firstAt: number;
  readonly last: { readonly event: string; readonly at: number } | null;
  /** Result according to the events, or null if the events contain no result. */
  readonly end: JobResult | null;
  readonly isStarted: boolean;
  readonly masterAttempt: number;
  readonly generations: number;
}

export function courseOf(entries: readonly HistoryEntry[]): JobCourse {
  const last = entries.at(-1);
  const finished = entries.findLast(({ state }) => state !== undefined);
  return {
    firstAt: entries[0]?.at ?? 0,
    last: last === undefined ? null : { event: shortened(last.type, LONGEST_NAME), at: last.at },
    end: finished?.state === undefined ? null : { state: finished.state, message: shortened(finished.message ?? '', LONGEST_TEXT) },
    isStarted: entries.some(({ type }) => type === 'program-started'),
    masterAttempt: Math.max(1, entries.filter(({ type }) => type === 'master-registered').length),
    generations: entries.reduce((most, { generation = 0 }) => Math.max(most, generation), 0),
  };
}

export interface JobOutline {
  readonly jobId: string;
  readonly user: string;
  readonly head: JobHead | null;
  readonly course: JobCourse;
  readonly isDamaged: boolean;
}

/** Returns the job's status without the tasks, notices and failure. */
export function outlineStatus({ jobId, user, head, course, isDamaged }: JobOutline, answer: ClusterAnswer): JobStatus {
  const report = typeof answer === 'string' ? null : answer;
  const result = report === null ? resultOf(course, isDamaged, answer === 'silent') : report.result;
  const startedAt = head?.submittedAt ?? report?.startedAt ?? course.firstAt;
  return {
    id: jobId,
    name: head?.name ?? report?.name ?? '',
    user,
    queue: head?.queue ?? report?.queue ?? '',
    state: result === null ? (course.isStarted ? 'running' : 'starting') : result.state,
    message: result?.message ?? (answer === 'silent' ? 'The cluster does not answer. This is the last state that the job recorded.' : ''),
    ...UNREPORTED,
    masterAttempt: course.masterAttempt,
    generations: course.generations,
    createdAt: startedAt,
    startedAt,
    finishedAt: result === null ? null : (report?.finishedAt ?? course.last?.at ?? null),
    checkpointUri: head?.checkpointDir ?? '',
    summaryUri: head?.summaryDir ?? '',
  };
}

function reconstructed({ jobId, user, frozen, final, entries }: JobRecord, answer: ClusterAnswer): JobStatus {
  const head = frozen && { ...frozen, name: frozen.job.name, queue: frozen.job.queue };
  const status = outlineStatus({ jobId, user, head, course: courseOf(entries), isDamaged: final !== null }, answer);
  return {
    ...status,
    notices: entries.filter(({ type }) => type === 'notice').map(({ message }) => message ?? ''),
    failure: firstFailure(entries),
    tasks: tasksOf(frozen, entries, isEndState(status.state)),
  };
}

/** Returns the result of a job that has no result in final.json or on the cluster. Returns null if the job may still be running. */
function resultOf({ end, last }: JobCourse, isDamaged: boolean, silent: boolean): JobResult | null {
  if (end !== null) {
    return end;
  }
  if (silent && !isDamaged) {
    return null;
  }
  const lastEvent = last === null ? 'There are no events.' : `Its last event was ${last.event} at ${timeText(last.at)}.`;
  const why = isDamaged
    ? "The job's final record is damaged"
    : 'The job stopped before it recorded its result, and YARN has no record of the result';
  return { state: 'failed', message: `${why}. ${lastEvent}` };
}

function timeText(ms: number): string {
  const time = fullTime(ms);
  return time === '-' ? 'an unknown time' : time;
}

function firstFailure(entries: readonly HistoryEntry[]): FirstFailure | null {
  for (const { role, index, failure } of entries) {
    if (role !== undefined && index !== undefined && failure?.cost === 'charged') {
      return { role, index, ...failure };
    }
  }
  return null;
}
