/** Runs parameter servers and workers inside the test process, and closes them when the test ends. */
import { randomBytes } from 'node:crypto';
import * as tf from '@tensorflow/tfjs';
import { onTestFinished } from 'vitest';
import type { WireSecurity } from '../../../conf/job.ts';
import { listening } from '../../../contract/testing/listening.ts';
import { Secret } from '../../../platform/secret.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { fileUri } from '../../../storage/uri.ts';
import { ParameterServer } from '../server/serve.ts';
import type { ServerTimeouts } from '../server/session.ts';
import { ParameterServerWorker } from '../worker/parameter-server-worker.ts';
import type { WorkerOptions } from '../worker/server-group.ts';

export interface ServerWorld {
  readonly workers: number;
  readonly servers: number;
  readonly staleness?: number | null;
  readonly generation?: number;
  readonly security?: WireSecurity;
  /** The checkpoint folder. Default: no checkpoints. */
  readonly checkpoints?: string | undefined;
  readonly timeouts?: Partial<ServerTimeouts>;
  /** Returns the port to which workers connect instead of the server's own port. */
  readonly through?: (port: number) => Promise<number>;
}

export interface RunningServers {
  readonly servers: readonly ParameterServer[];
  optionsOf(rank: number): WorkerOptions;
}

export async function startServers(world: ServerWorld): Promise<RunningServers> {
  const { workers, staleness = null, generation = 1, security = 'none', checkpoints, timeouts = {}, through } = world;
  const key = new Secret(randomBytes(32));
  const places = await Promise.all(Array.from({ length: world.servers }, listening));
  const servers = await Promise.all(
    places.map(({ server }, index) =>
      ParameterServer.open({
        ...{ tf, storage: new FileStorage(), index, worldSize: workers, generation, key, security, timeouts, onNotice: () => {} },
        checkpointDir: checkpoints === undefined ? null : fileUri(checkpoints),
        listener: server,
      }),
    ),
  );
  onTestFinished(() => {
    for (const server of servers) {
      server.close();
    }
  });
  const addresses = await Promise.all(
    places.map(async ({ address: { host, port } }) => ({ host, port: through === undefined ? port : await through(port) })),
  );
  return {
    servers,
    optionsOf: (rank) => ({
      ...{ rank, worldSize: workers, generation, key, security, addresses, staleness, onLost: () => {} },
      timeouts: { graceMs: 200 },
    }),
  };
}

/** Creates a worker with its own state, as if it ran in a new process. */
export function openWorker(options: WorkerOptions): ParameterServerWorker {
  const worker = new ParameterServerWorker(options);
  onTestFinished(() => worker.close());
  return worker;
}
