import { type Job, TENSORBOARD_ROLE } from '../../conf/job.ts';
import { tensorBoardRole } from '../../conf/tensorboard-role.ts';

/** Whether tony-ts adds a TensorBoard to the job. It does not if job.yaml has a role named tensorboard. */
export function bringsTensorBoard(job: Job): boolean {
  return job.tensorboard.serve && !job.roles.some(({ name }) => name === TENSORBOARD_ROLE);
}

/** Adds the TensorBoard role to the job if `bringsTensorBoard`. */
export function withTensorBoard(job: Job): Job {
  return bringsTensorBoard(job) ? { ...job, roles: [...job.roles, tensorBoardRole(job.tensorboard.memoryMb)] } : job;
}
