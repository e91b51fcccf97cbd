import { setTimeout as delay } from 'node:timers/promises';
import { jobDuration } from '../../../conf/status/job-duration.ts';
import type { TaskState } from '../../../conf/status/status.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { JobConnection, KillReason, Observation } from '../job-connection.ts';

/** How long (ms) to wait for a killed job to end. YARN acknowledges a kill request immediately, but stops the containers later. */
const MAX_WAIT_MS = 30_000;

export interface KillImpact {
  readonly applicationId: string;
  /** Job name, or '' before the ApplicationMaster's first status. */
  readonly name: string;
  /** State of the job or its application, such as `ACCEPTED` or `RUNNING`. */
  readonly state: string;
  /**
   * For each role, the number of tasks with a container, and the nodes that run these containers. The roles are in the same order as in the
   * job.
   */
  readonly roles: readonly { readonly role: string; readonly tasks: number; readonly nodes: readonly string[] }[];
  /** Number of tasks whose program is running. */
  readonly running: number;
  /** Total number of tasks in the job, including waiting and ended tasks. */
  readonly tasks: number;
  /** Time since the job's submission in ms, or null if the job is not running. */
  readonly ranMs: number | null;
  readonly step: number;
  /** Step of the newest checkpoint, or 0 if there is none. */
  readonly checkpointStep: number;
  readonly stepsLost: number;
}

export interface KillReport {
  /** Whether this request killed the job. False if the job had already ended. */
  readonly killed: boolean;
  /** The tasks and the progress that were lost, according to the last status before the job was killed. */
  readonly impact: KillImpact;
  /** The job's state before it was killed, or its result if it had already ended. */
  readonly observation: Observation;
}

/**
 * Kills a job and waits until it has ended.
 * @throws TonyError APPLICATION_UNKNOWN, KILL_FAILED, RM_REFUSED for another user's job, or a connection error if the cluster is
 *   unreachable
 */
export async function killJob(connection: JobConnection, by: KillReason = 'order'): Promise<KillReport> {
  const observation = await connection.observe();
  const impact = killImpact(connection.applicationId, observation, Date.now());
  if (observation.result !== null || !(await connection.kill(by))) {
    return { killed: false, impact, observation };
  }
  const deadline = performance.now() + MAX_WAIT_MS;
  for (;;) {
    const { result } = await connection.observe();
    if (result !== null) {
      return { killed: result.state === 'KILLED', impact, observation };
    }
    if (performance.now() > deadline) {
      throw new TonyError(
        'KILL_FAILED',
        `${connection.applicationId} has not ended within ${MAX_WAIT_MS / 1000} s after the kill request.`,
      );
    }
    await delay(100);
  }
}

const HOLDS_CONTAINER: ReadonlySet<TaskState> = new Set(['launching', 'registered', 'running']);

/** Returns the tasks and the progress that would be lost if the job were killed now. */
export function killImpact(applicationId: string, { phase, status, result }: Observation, now: number): KillImpact {
  const living = result === null ? (status?.tasks ?? []).filter(({ state }) => HOLDS_CONTAINER.has(state)) : [];
  const roles = [...new Set(living.map(({ role }) => role))].map((role) => {
    const tasks = living.filter((task) => task.role === role);
    return { role, tasks: tasks.length, nodes: [...new Set(tasks.flatMap(({ node }) => node ?? []))] };
  });
  const { step = 0, checkpointStep = 0 } = status ?? {};
  return {
    applicationId,
    name: status?.name ?? '',
    state: result?.state ?? status?.state ?? phase,
    roles,
    running: living.filter(({ state }) => state === 'running').length,
    tasks: status?.tasks.length ?? 0,
    ranMs: status === null || result !== null ? null : jobDuration(status, now),
    step,
    checkpointStep,
    stepsLost: Math.max(0, step - checkpointStep),
  };
}
