import { isDeepStrictEqual } from 'node:util';
import { CONTAINER_LAYOUT, type Role, TASK_FILE_VARIABLE, TENSORBOARD_ROLE } from '../job.ts';

/**
 * Heap limits (MiB). Small heaps suffice, because tensorboard.mjs only forwards bytes and copies files. TensorBoard itself is a separate
 * process.
 */
const NODE_FLAGS = '--max-semi-space-size=2 --max-old-space-size=96';
/** Effectively unlimited. application-master/job/state/tensorboard-task.ts limits the restart rate. */
const RESTARTS = 1_000_000;

export function tensorBoardRole(memoryMb: number): Role {
  return {
    name: TENSORBOARD_ROLE,
    instances: 1,
    maxInstances: 1,
    resources: { memoryMb, vcores: 1, gpus: 0, other: {} },
    // The empty NODE_OPTIONS overrides the user's value, which is meant for the user's programs. `TONY_TASK_FILE` is in the container's
    // folder.
    command: `NODE_OPTIONS= exec node ${NODE_FLAGS} "\${${TASK_FILE_VARIABLE}%/*}/${CONTAINER_LAYOUT.bundles}/tensorboard.mjs"`,
    files: [],
    env: {},
    nodeLabel: null,
    docker: null,
    restart: { policy: 'on-failure', maxRestarts: RESTARTS },
    retryOn: null,
    timeLimitMs: null,
    after: [],
    endAfter: null,
    tracking: 'sidecar',
    chief: false,
    ranked: false,
    servesParameters: false,
  };
}

/** Returns true for the role that tony-ts adds, and false for a user-defined role with the same name. */
export function isTensorBoardRole(role: Role, memoryMb: number): boolean {
  return isDeepStrictEqual(role, tensorBoardRole(memoryMb));
}
