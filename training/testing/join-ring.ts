import { randomBytes } from 'node:crypto';
import { openEarlyListener } from '../../contract/connections/listener.ts';
import { Secret } from '../../platform/secret.ts';
import { Ring } from '../ring/ring.ts';

/** Creates a ring with all ranks in this process. The caller must close all ranks. */
export async function joinRing(worldSize: number): Promise<Ring[]> {
  const key = new Secret(randomBytes(32));
  const listeners = await Promise.all(Array.from({ length: worldSize }, () => openEarlyListener('127.0.0.1')));
  const addresses = listeners.map(({ port }) => ({ host: '127.0.0.1', port }));
  try {
    return await Promise.all(
      listeners.map(({ server }, rank) =>
        Ring.join({ rank, worldSize, generation: 1, key, listener: server, addresses, onLost: () => {} }),
      ),
    );
  } finally {
    // A ring with only one rank does not close its listener.
    for (const { server } of listeners) {
      server.close();
    }
  }
}
