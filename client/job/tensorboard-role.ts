import { type Job, TENSORBOARD_ROLE } from '../../conf/job.ts';
import { tensorBoardRole } from '../../conf/resolve/tensorboard-role.ts';

/** Returns true if tony-ts adds a TensorBoard role to the job. tony-ts does not add one if job.yaml already has a `tensorboard` role. */
export function bringsTensorBoard(job: Job): boolean {
  return job.tensorboard.serve && !job.roles.some(({ name }) => name === TENSORBOARD_ROLE);
}

export function withTensorBoard(job: Job): Job {
  return bringsTensorBoard(job) ? { ...job, roles: [...job.roles, tensorBoardRole(job.tensorboard.resources)] } : job;
}
