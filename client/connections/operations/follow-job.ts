import type { JobResult, JobStatus } from '../../../conf/status/status.ts';
import { pause } from '../../../platform/async/backoff.ts';
import { untilAborted } from '../../../platform/async/until-aborted.ts';
import { checkOptions, type OptionNames } from '../../../platform/check-options.ts';
import { OutageTolerance } from '../../cluster/outage-tolerance.ts';
import type { JobConnection, Observation } from '../job-connection.ts';
import { changes, type JobEvent } from './job-events.ts';

export interface JobReport extends Pick<JobStatus, 'applicationId' | 'tasks' | 'metrics' | 'step' | 'generations'> {
  readonly state: JobResult['state'];
  /**
   * For a failed job, the cause and the next step. For a successful job, the reason why training stopped early, or '' if all epochs ran.
   */
  readonly diagnostics: string;
  /** Step of the newest checkpoint, or 0 if there is none. */
  readonly checkpointStep: number;
  /** URI of the checkpoint folder, or null if no ApplicationMaster ever ran. */
  readonly checkpointDir: string | null;
  readonly summaryDir: string | null;
}

/** A job as it was observed, with the events since the previous observation. */
export interface Look {
  readonly observation: Observation;
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
 * Observes a job until the job ends, and returns a report.
 * @throws TonyError APPLICATION_UNKNOWN if the job does not exist; RM_UNREACHABLE or HDFS_UNREACHABLE if the first observation fails, or if
 *   the cluster is unreachable for longer than `maxWaitMs`
 */
export async function* followJob(connection: JobConnection, options: FollowOptions = {}): AsyncGenerator<Look, JobReport> {
  checkOptions('followJob', options, FOLLOW_OPTIONS);
  const { intervalMs, maxWaitMs, signal } = options;
  const outage = new OutageTolerance(maxWaitMs);
  let before: Observation | null = null;
  let changedAt = performance.now();
  for (;;) {
    signal?.throwIfAborted();
    try {
      const observation = await untilAborted(connection.observe(), signal);
      const events = eventsBetween(before, observation);
      const back = outage.answered();
      if (back !== null) {
        events.unshift({ type: 'notice', message: back });
      }
      before = observation;
      if (events.some(({ type }) => type === 'state' || type === 'task')) {
        changedAt = performance.now();
      }
      yield { observation, events };
      if (observation.result !== null) {
        return reportOf(connection.applicationId, observation.status, observation.result);
      }
    } catch (error) {
      const notice = outage.missed(error);
      if (notice !== null && before !== null) {
        yield { observation: before, events: [{ type: 'notice', message: notice }] };
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

function eventsBetween(before: Observation | null, after: Observation): JobEvent[] {
  if (after.status !== null) {
    return changes(before?.status ?? null, after.status);
  }
  if (before !== null && before.phase === after.phase && before.waiting === after.waiting) {
    return [];
  }
  // Omit YARN's initial states, which last only milliseconds.
  if (['NEW', 'NEW_SAVING', 'SUBMITTED'].includes(after.phase)) {
    return [];
  }
  return [{ type: 'state', state: after.phase, message: after.waiting, generation: 0 }];
}

export function reportOf(applicationId: string, status: JobStatus | null, result: JobResult): JobReport {
  return {
    applicationId,
    state: result.state,
    diagnostics: result.diagnostics,
    tasks: status?.tasks ?? [],
    metrics: status?.metrics ?? {},
    step: status?.step ?? 0,
    generations: status?.generations ?? 0,
    checkpointStep: status?.checkpointStep ?? 0,
    checkpointDir: status?.checkpointDir ?? null,
    summaryDir: status?.summaryDir ?? null,
  };
}
