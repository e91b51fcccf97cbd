import { randomBytes } from 'node:crypto';
import { Secret } from '../../conf/secret.ts';
import { Ring } from '../ring.ts';
import { openEarlyListener } from '../ring-connect.ts';

/** A ring with all of its ends in this process; whoever has asked for it closes them. */
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
    // One rank alone listens to nobody.
    for (const { server } of listeners) server.close();
  }
}
