import { isTracked } from '../../../conf/job.ts';
import type { MachineState, Task } from './job-state.ts';
import { isMember } from './membership.ts';

/**
 * Returns the fraction of the job that has been completed, from 0 to 1. This is the fraction of its steps that rank 0 has completed, or the
 * highest fraction of any task if no task has a rank. If no program has reported its expected number of steps, returns the fraction of
 * tracked tasks that have succeeded, or null if none has.
 */
export function progressOf({ tasks }: MachineState): number | null {
  const tracked = tasks.filter((task) => isTracked(task.role) && (task.index < task.role.instances || isMember(task)));
  const leader = tracked.find(({ rank }) => rank === 0);
  const shares = (leader === undefined ? tracked : [leader]).flatMap(shareOf);
  if (shares.length > 0) {
    return Math.max(...shares);
  }
  const ended = tracked.filter(({ state }) => state === 'succeeded').length;
  return ended === 0 ? null : ended / tracked.length;
}

function shareOf({ progress: { step, total } }: Task): number[] {
  return total > 0 ? [Math.min(1, step / total)] : [];
}
