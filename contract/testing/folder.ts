import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';

/** Returns the path of a new folder, which is removed when the test ends. */
export async function folder(): Promise<string> {
  const made = await mkdtemp(path.join(tmpdir(), 'tony-ts-test-'));
  onTestFinished(() => rm(made, { recursive: true, force: true }));
  return made;
}
