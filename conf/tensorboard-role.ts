import { CONTAINER_LAYOUT, type Role, TASK_FILE_VARIABLE, TENSORBOARD_ROLE } from './job.ts';

/** It passes bytes on and copies files: Python holds the curves. */
const NODE_FLAGS = '--max-semi-space-size=2 --max-old-space-size=96';
/** Nobody counts: see application-master/companion.ts. */
const RESTARTS = 1_000_000;

/** The role of the TensorBoard that comes with a job: always this one, by which it is told from a role of that name that a user has made. */
export function tensorBoardRole(memoryMb: number): Role {
  return {
    name: TENSORBOARD_ROLE,
    instances: 1,
    maxInstances: 1,
    resources: { memoryMb, vcores: 1, gpus: 0, other: {} },
    // The user's options for Node are for the user's programs. The task's file lies in the container's folder, wherever the command runs.
    command: `NODE_OPTIONS= exec node ${NODE_FLAGS} "\${${TASK_FILE_VARIABLE}%/*}/${CONTAINER_LAYOUT.bundles}/tensorboard.mjs"`,
    env: {},
    nodeLabel: null,
    restart: { policy: 'on-failure', maxRestarts: RESTARTS },
    tracking: 'sidecar',
    chief: false,
    ranked: false,
    servesParameters: false,
  };
}
