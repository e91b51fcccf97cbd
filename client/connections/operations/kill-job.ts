import { setTimeout as delay } from 'node:timers/promises';
import { jobDuration } from '../../../conf/status/job-duration.ts';
import { isOver, isReported, type JobInfo } from '../../../conf/status/job-info.ts';
import type { JobState, TaskState } from '../../../conf/status/status.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { JobConnection, KillReason } from '../job-connection.ts';

/** How long (ms) to wait for a killed job to end. YARN acknowledges a kill request immediately, but stops the containers later. */
const MAX_WAIT_MS = 30_000;

export interface KillImpact {
  readonly id: string;
  readonly name: string;
  /** State of the job before the request, or its result if it had already ended. */
  readonly state: JobState;
  /**
   * For each role, the number of tasks with a container, and the nodes that run these containers. The roles are in the same order as in the
   * job.
   */
  readonly roles: readonly { readonly role: string; readonly tasks: number; readonly nodes: readonly string[] }[];
  /** Number of tasks whose program is running. */
  readonly tasksRunning: number;
  /** Total number of tasks in the job, including waiting and ended tasks. */
  readonly tasksTotal: number;
  /** Time since the job's submission in ms, or null if the job is not running. */
  readonly ranMs: number | null;
  readonly step: number;
  /** Step of the newest checkpoint, or 0 if there is none. */
  readonly checkpointStep: number;
  /** Number of steps after the newest checkpoint, or 0 if the job had already ended. */
  readonly stepsLost: number;
}

export interface KillReport {
  /** Whether this request killed the job. False if the job had already ended. */
  readonly killed: boolean;
  /** The tasks and the progress that were lost, according to the last status before the job was killed. */
  readonly impact: KillImpact;
  /** The job's state before it was killed, or its result if it had already ended. */
  readonly job: JobInfo;
}

/**
 * Kills a job and waits until it has ended.
 * @throws TonyError JOB_NOT_FOUND, KILL_FAILED, RM_DENIED for another user's job, or a connection error if the cluster is
 *   unreachable
 */
export async function killJob(connection: JobConnection, by: KillReason = 'order'): Promise<KillReport> {
  const job = await connection.observe();
  const impact = killImpact(job, Date.now());
  if (isOver(job) || !(await connection.kill(by))) {
    return { killed: false, impact, job };
  }
  const deadline = performance.now() + MAX_WAIT_MS;
  for (;;) {
    const now = await connection.observe();
    if (isOver(now)) {
      return { killed: now.state === 'killed', impact, job };
    }
    if (performance.now() > deadline) {
      throw new TonyError('KILL_FAILED', `${connection.id} has not ended within ${MAX_WAIT_MS / 1000} s after the kill request.`);
    }
    await delay(100);
  }
}

const HOLDS_CONTAINER: ReadonlySet<TaskState> = new Set(['launching', 'registered', 'running']);

/** Returns the tasks and the progress that would be lost if the job were killed now. */
export function killImpact(job: JobInfo, now: number): KillImpact {
  const over = isOver(job);
  const { id, name, state, step, checkpointStep } = job;
  const living = over ? [] : job.tasks.filter((task) => HOLDS_CONTAINER.has(task.state));
  const roles = [...new Set(living.map(({ role }) => role))].map((role) => {
    const tasks = living.filter((task) => task.role === role);
    return { role, tasks: tasks.length, nodes: [...new Set(tasks.flatMap(({ node }) => node ?? []))] };
  });
  return {
    id,
    name,
    state,
    roles,
    tasksRunning: living.filter((task) => task.state === 'running').length,
    tasksTotal: job.tasks.length,
    ranMs: over || !isReported(job) ? null : jobDuration(job, now),
    step,
    checkpointStep,
    stepsLost: over ? 0 : Math.max(0, step - checkpointStep),
  };
}
