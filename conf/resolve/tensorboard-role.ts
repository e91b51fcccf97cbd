import { CONTAINER_LAYOUT, type OwnResources, type Role, TASK_FILE_VARIABLE, TENSORBOARD_ROLE } from '../job.ts';

/**
 * Heap limits in MiB. tensorboard.mjs only forwards bytes and copies files, so it needs only a small heap. TensorBoard itself runs in a
 * separate process.
 */
const NODE_FLAGS = '--max-semi-space-size=2 --max-old-space-size=96';

export function tensorBoardRole({ memoryMb, vcores }: OwnResources): Role {
  return {
    name: TENSORBOARD_ROLE,
    instances: 1,
    maxInstances: 1,
    resources: { memoryMb, vcores, gpus: 0, other: {} },
    // An empty NODE_OPTIONS overrides the value that the user has set for the job's programs. The file named by `TONY_TASK_FILE` is in the
    // container's folder.
    command: `NODE_OPTIONS= exec node ${NODE_FLAGS} "\${${TASK_FILE_VARIABLE}%/*}/${CONTAINER_LAYOUT.bundles}/tensorboard.mjs"`,
    files: [],
    env: {},
    nodeLabel: null,
    docker: null,
    restart: { policy: 'on-failure', maxRestarts: 0, onExitCodes: null },
    timeoutMs: null,
    gracePeriodMs: 3_000,
    after: [],
    endAfter: null,
    kind: 'sidecar',
    chief: false,
    servesParameters: false,
    spare: true,
  };
}
