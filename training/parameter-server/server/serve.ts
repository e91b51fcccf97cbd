import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../../platform/errors.ts';
import { Secret } from '../../../platform/secret.ts';
import type { Storage } from '../../../storage/storage.ts';
import { type Report, rankNames, type TaskContext } from '../../process/task-context.ts';
import { ParameterServer } from './parameter-server.ts';
import type { ServerTimeouts } from './session.ts';

/** Returns true if this task is one of its job's parameter servers. */
export function servesParameters({ rank, index, listener, parameterServers }: TaskContext): boolean {
  const address = parameterServers[index];
  return rank === null && listener !== null && address?.host === listener.host && address.port === listener.port;
}

/** Runs this task's parameter server until the job stops the task. Never returns to the program. */
export async function serveParameters(
  task: TaskContext,
  world: {
    readonly tf: typeof tfjs;
    readonly storage: Storage;
    readonly report: (report: Report) => void;
    readonly timeouts?: Partial<ServerTimeouts>;
  },
): Promise<never> {
  const { index, worldSize, generation, ringKey, listener, strategy } = task;
  if (listener === null) {
    throw new TonyError('TASK_FILE_INVALID', 'the task file does not contain a port for this parameter server');
  }
  const server = await ParameterServer.open({
    ...{ index, worldSize, generation, listener },
    security: strategy.wireSecurity,
    names: rankNames(task),
    tf: world.tf,
    storage: world.storage,
    checkpointDir: task.checkpoint.dir,
    key: new Secret(Buffer.from(ringKey, 'base64')),
    onNotice: (message) => {
      process.stderr.write(`tony-ts: ${message}\n`);
      world.report({ type: 'notice', message });
    },
    ...(world.timeouts === undefined ? {} : { timeouts: world.timeouts }),
  });
  return await new Promise<never>(() => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        server.close();
        process.exit(0);
      });
    }
  });
}
