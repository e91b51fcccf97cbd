import { isDeepStrictEqual } from 'node:util';
import { CONTAINER_LAYOUT, type Role, TASK_FILE_VARIABLE, TENSORBOARD_ROLE } from './job.ts';

/** Small heaps suffice: this process only forwards bytes and copies files. The data of the charts is in TensorBoard's own process. */
const NODE_FLAGS = '--max-semi-space-size=2 --max-old-space-size=96';
/** Effectively unlimited; application-master/job/tensorboard-task.ts limits the rate of restarts. */
const RESTARTS = 1_000_000;

/** Returns the role that tony-ts adds when job.yaml sets `tensorboard`. */
export function tensorBoardRole(memoryMb: number): Role {
  return {
    name: TENSORBOARD_ROLE,
    instances: 1,
    maxInstances: 1,
    resources: { memoryMb, vcores: 1, gpus: 0, other: {} },
    // Clears NODE_OPTIONS, which the user sets for the user's programs. The task file is in the container's folder, next to the bundles.
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

/** True for the role that tony-ts adds, as opposed to a user's role with the same name. */
export function isTensorBoardRole(role: Role, memoryMb: number): boolean {
  return isDeepStrictEqual(role, tensorBoardRole(memoryMb));
}
