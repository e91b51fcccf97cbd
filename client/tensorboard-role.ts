import { CONTAINER_LAYOUT, type Job, type Role, TENSORBOARD_ROLE } from '../conf/job.ts';
import { TASK_ENVIRONMENT } from '../training/task-context.ts';

/** It passes bytes on and copies files: Python holds the curves. */
const NODE_FLAGS = '--max-semi-space-size=2 --max-old-space-size=96';
/** Nobody counts: see application-master/companion.ts. */
const RESTARTS = 1_000_000;

/** A TensorBoard is to come with the job; one that job.yaml describes as a role is the user's own affair. */
export function bringsTensorBoard(job: Job): boolean {
  return job.tensorboard.serve && !job.roles.some(({ name }) => name === TENSORBOARD_ROLE);
}

/** The job with the role of its TensorBoard, where it brings one. */
export function withTensorBoard(job: Job): Job {
  return bringsTensorBoard(job) ? { ...job, roles: [...job.roles, tensorBoardRole(job.tensorboard.memoryMb)] } : job;
}

function tensorBoardRole(memoryMb: number): Role {
  return {
    name: TENSORBOARD_ROLE,
    instances: 1,
    maxInstances: 1,
    resources: { memoryMb, vcores: 1, gpus: 0, other: {} },
    // The user's options for Node are for the user's programs. The task's file lies in the container's folder, wherever the command runs.
    command: `NODE_OPTIONS= exec node ${NODE_FLAGS} "\${${TASK_ENVIRONMENT.taskFile}%/*}/${CONTAINER_LAYOUT.bundles}/tensorboard.mjs"`,
    env: {},
    nodeLabel: null,
    restart: { policy: 'on-failure', maxRestarts: RESTARTS },
    tracking: 'sidecar',
    chief: false,
    ranked: false,
    servesParameters: false,
  };
}
