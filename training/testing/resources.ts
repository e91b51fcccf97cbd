/** A test's resources, which are removed or closed when the test ends. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import type { Ring } from '../ring/ring.ts';
import { joinRing } from './join-ring.ts';

export async function folder(): Promise<string> {
  const made = await mkdtemp(path.join(tmpdir(), 'training-'));
  onTestFinished(() => rm(made, { recursive: true, force: true }));
  return made;
}

/** Creates a ring with all ranks in this process. */
export async function ringOf(worldSize: number): Promise<Ring[]> {
  const rings = await joinRing(worldSize);
  onTestFinished(() => {
    for (const ring of rings) {
      ring.close();
    }
  });
  return rings;
}
