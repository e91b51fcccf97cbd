import { setTimeout as delay } from 'node:timers/promises';
import { TonyError } from '../conf/errors.ts';
import type { JobConnection, Observation } from './job-connection.ts';

/** YARN answers at once and ends the containers after that. */
const PATIENCE_MS = 30_000;

export interface KillReport {
  /** False: it was over before. */
  readonly killed: boolean;
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
  if (observation.result !== null || !(await connection.kill())) return { killed: false, observation };
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const { result } = await connection.observe();
    if (result !== null) return { killed: result.state === 'KILLED', observation };
    if (performance.now() > deadline) {
      throw new TonyError('KILL_FAILED', `${connection.applicationId} was told to end and has not after ${PATIENCE_MS / 1000} s.`);
    }
    await delay(100);
  }
}
