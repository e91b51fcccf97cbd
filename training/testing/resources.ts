import { onTestFinished } from 'vitest';
import type { Ring } from '../ring/ring.ts';
import { joinRing } from './join-ring.ts';

/** Creates a ring with all ranks in this process. The ring is closed when the test ends. */
export async function ringOf(worldSize: number): Promise<Ring[]> {
  const rings = await joinRing(worldSize);
  onTestFinished(() => {
    for (const ring of rings) {
      ring.close();
    }
  });
  return rings;
}
