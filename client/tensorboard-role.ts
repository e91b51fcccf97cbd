import { type Job, TENSORBOARD_ROLE } from '../conf/job.ts';
import { tensorBoardRole } from '../conf/tensorboard-role.ts';

/** A TensorBoard is to come with the job; one that job.yaml describes as a role is the user's own affair. */
export function bringsTensorBoard(job: Job): boolean {
  return job.tensorboard.serve && !job.roles.some(({ name }) => name === TENSORBOARD_ROLE);
}

/** The job with the role of its TensorBoard, where it brings one. */
export function withTensorBoard(job: Job): Job {
  return bringsTensorBoard(job) ? { ...job, roles: [...job.roles, tensorBoardRole(job.tensorboard.memoryMb)] } : job;
}
