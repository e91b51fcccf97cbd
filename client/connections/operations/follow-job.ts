import { isOver, isReported, type JobInfo } from '../../../conf/status/job-info.ts';
import type { JobResult } from '../../../conf/status/status.ts';
import { pause } from '../../../platform/async/backoff.ts';
import { untilAborted } from '../../../platform/async/until-aborted.ts';
import { checkOptions, type OptionNames } from '../../../platform/check-options.ts';
import { OutageTolerance } from '../../cluster/outage-tolerance.ts';
import type { JobConnection } from '../job-connection.ts';
import { changes, type JobEvent } from './job-events.ts';

/**
 * A job that has ended. `message` contains the cause of a failure and the next step; for a successful job, the reason why training stopped
 * early, or '' if all epochs ran.
 */
export interface EndedJob extends JobInfo {
  readonly state: JobResult['state'];
}

/** A job as it was observed, with the events since the previous observation. */
export interface Look {
  readonly job: JobInfo;
  readonly events: readonly JobEvent[];
}

export interface FollowOptions {
  /** Interval between observations in ms. By default, the interval is 250 ms, and grows to 1 s while no task changes state. */
  readonly intervalMs?: number;
  /** Maximum time (ms) that the cluster may be unreachable. Default: ten minutes. The job continues in the meantime. */
  readonly maxWaitMs?: number;
  /** Signal that stops the observation, but not the job. The generator then throws the abort reason. */
  readonly signal?: AbortSignal;
}

const SHORTEST_INTERVAL_MS = 250;
/** Equal to the executors' default heartbeat interval. */
const LONGEST_INTERVAL_MS = 1_000;
/** Interval between observations, as a fraction of the time since the last change. */
const INTERVAL_SHARE = 0.05;

const FOLLOW_OPTIONS: OptionNames<FollowOptions> = { intervalMs: true, maxWaitMs: true, signal: true };

/**
 * Observes a job until the job ends, and returns the ended job.
 * @throws TonyError JOB_NOT_FOUND if the job does not exist; RM_UNREACHABLE or HDFS_UNREACHABLE if the first observation fails, or if
 *   the cluster is unreachable for longer than `maxWaitMs`
 */
export async function* followJob(connection: JobConnection, options: FollowOptions = {}): AsyncGenerator<Look, EndedJob> {
  checkOptions('followJob', options, FOLLOW_OPTIONS);
  const { intervalMs, maxWaitMs, signal } = options;
  const outage = new OutageTolerance(maxWaitMs);
  let before: JobInfo | null = null;
  let changedAt = performance.now();
  for (;;) {
    signal?.throwIfAborted();
    try {
      const job = await untilAborted(connection.observe(), signal);
      const events = eventsBetween(before, job);
      const back = outage.answered();
      if (back !== null) {
        events.unshift({ type: 'notice', message: back });
      }
      before = job;
      if (events.some(({ type }) => type === 'state' || type === 'task')) {
        changedAt = performance.now();
      }
      yield { job, events };
      if (hasEnded(job)) {
        return job;
      }
    } catch (error) {
      const notice = outage.missed(error);
      if (notice !== null && before !== null) {
        yield { job: before, events: [{ type: 'notice', message: notice }] };
      }
    }
    await pause(intervalMs ?? intervalAfter(performance.now() - changedAt), signal);
  }
}

/**
 * Returns how long (ms) to wait before observing a job again.
 * @param unchangedMs time since a task last changed state
 */
export function intervalAfter(unchangedMs: number): number {
  return Math.min(LONGEST_INTERVAL_MS, Math.max(SHORTEST_INTERVAL_MS, unchangedMs * INTERVAL_SHARE));
}

function eventsBetween(before: JobInfo | null, after: JobInfo): JobEvent[] {
  if (isReported(after)) {
    return changes(before, after);
  }
  if (before !== null && before.state === after.state && before.message === after.message) {
    return [];
  }
  // This state lasts only milliseconds. The end of a job is the last event of its own.
  if (after.state === 'submitted' || isOver(after)) {
    return [];
  }
  return [{ type: 'state', state: after.state, message: after.message, generation: 0 }];
}

/** Returns true if the job has ended. */
export function hasEnded(job: JobInfo): job is EndedJob {
  return isOver(job);
}
