import { CONTAINER_LAYOUT, type Role, TASK_FILE_VARIABLE, TENSORBOARD_ROLE } from './job.ts';

/** Small heaps suffice: this process only forwards bytes and copies files, and the Python process holds the data of the charts. */
const NODE_FLAGS = '--max-semi-space-size=2 --max-old-space-size=96';
/** Effectively unlimited; application-master/job/tensorboard-task.ts determines the pauses between restarts. */
const RESTARTS = 1_000_000;

/** The role that `tensorboard` adds. It has fixed values, which distinguish it from a user's role of the same name. */
export function tensorBoardRole(memoryMb: number): Role {
  return {
    name: TENSORBOARD_ROLE,
    instances: 1,
    maxInstances: 1,
    resources: { memoryMb, vcores: 1, gpus: 0, other: {} },
    // The user's NODE_OPTIONS apply to the user's programs only. The task file is in the container's folder, not in the working directory.
    command: `NODE_OPTIONS= exec node ${NODE_FLAGS} "\${${TASK_FILE_VARIABLE}%/*}/${CONTAINER_LAYOUT.bundles}/tensorboard.mjs"`,
    env: {},
    nodeLabel: null,
    docker: null,
    restart: { policy: 'on-failure', maxRestarts: RESTARTS },
    tracking: 'sidecar',
    chief: false,
    ranked: false,
    servesParameters: false,
  };
}
