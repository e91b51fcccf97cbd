import { setTimeout as delay } from 'node:timers/promises';
import { TonyError } from '../conf/errors.ts';
import type { TaskState } from '../conf/status.ts';
import type { JobConnection, Observation } from './job-connection.ts';

/** YARN answers at once and ends the containers after that. */
const PATIENCE_MS = 30_000;

/** What a job that is killed takes with it. */
export interface Casualties {
  readonly applicationId: string;
  /** Empty before its ApplicationMaster has spoken. */
  readonly name: string;
  /** What YARN or the job says of it: `ACCEPTED`, `RUNNING`, ... */
  readonly state: string;
  /** Tasks that have a container, by role in the job's order, with their nodes. */
  readonly roles: readonly { readonly role: string; readonly tasks: number; readonly nodes: readonly string[] }[];
  /** Tasks whose programs run or are about to. */
  readonly running: number;
  /** All that the job has, those that wait or have ended included. */
  readonly tasks: number;
  /** How long the job has run (ms); null when nothing of it does. */
  readonly ranMs: number | null;
  readonly step: number;
  /** The newest step that is kept; 0 when none is. */
  readonly checkpointStep: number;
  /** Steps since then, which have to be trained again. */
  readonly stepsLost: number;
}

export interface KillReport {
  /** False: it was over before. */
  readonly killed: boolean;
  /** Of the job as it was when the order came. */
  readonly casualties: Casualties;
  /** The job as it was when the order came, or how it had ended. */
  readonly observation: Observation;
}

/**
 * Ends a job and waits until the cluster says so.
 *
 * @throws TonyError APPLICATION_UNKNOWN, KILL_FAILED, RM_REFUSED when it is somebody else's, or that the cluster cannot be reached.
 */
export async function killJob(connection: JobConnection): Promise<KillReport> {
  const observation = await connection.observe();
  const casualties = casualtiesOf(connection.applicationId, observation, Date.now());
  if (observation.result !== null || !(await connection.kill())) return { killed: false, casualties, observation };
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const { result } = await connection.observe();
    if (result !== null) return { killed: result.state === 'KILLED', casualties, observation };
    if (performance.now() > deadline) {
      throw new TonyError('KILL_FAILED', `${connection.applicationId} was told to end and has not after ${PATIENCE_MS / 1000} s.`);
    }
    await delay(100);
  }
}

const HOLDS_CONTAINER: ReadonlySet<TaskState> = new Set(['allocated', 'launching', 'registered', 'running']);

/** What would end with the job, were it killed now. */
export function casualtiesOf(applicationId: string, { phase, status, result }: Observation, now: number): Casualties {
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
    running: living.filter(({ state }) => state === 'running' || state === 'registered').length,
    tasks: status?.tasks.length ?? 0,
    ranMs: status === null || result !== null ? null : Math.max(0, now - status.startedAt),
    step,
    checkpointStep,
    stepsLost: Math.max(0, step - checkpointStep),
  };
}
