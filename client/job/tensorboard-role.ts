import { type Job, TENSORBOARD_ROLE } from '../../conf/job.ts';
import { tensorBoardRole } from '../../conf/tensorboard-role.ts';

/** Whether tony-ts adds a TensorBoard to the job; a TensorBoard role in job.yaml is managed by the user. */
export function bringsTensorBoard(job: Job): boolean {
  return job.tensorboard.serve && !job.roles.some(({ name }) => name === TENSORBOARD_ROLE);
}

/** Adds the TensorBoard role to the job if tony-ts provides it. */
export function withTensorBoard(job: Job): Job {
  return bringsTensorBoard(job) ? { ...job, roles: [...job.roles, tensorBoardRole(job.tensorboard.memoryMb)] } : job;
}
