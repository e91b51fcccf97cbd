import path from 'node:path';
import { expect, test } from 'vitest';
import { followTutorial } from '../follow-tutorial.ts';
import { temporaryFolder } from '../harness.ts';
import { pythonThatImports } from '../python-environment.ts';
import { ReadersShell } from '../readers-shell.ts';

/** Follows the tutorial of PyTorch as a reader without a cluster. integration-tests/tutorials.test.ts follows the tutorials on a cluster. */

const pytorch = await pythonThatImports('torch');

test.skipIf(pytorch === null)('a reader without a cluster follows the tutorial of PyTorch on one machine', async () => {
  const folder = await temporaryFolder();
  const shell = await ReadersShell.open(folder, null, {});
  const adapt = (text: string): string => text.replace(/(command:|submit .* --) python3 /, `$1 ${pytorch} `);
  // The test uses an installed PyTorch.
  const skipped = [/^python3 -m venv /, /^\. \.venv/, /^python3 -m pip install /];
  const work = path.join(folder, 'work');
  expect(await followTutorial('docs/tutorials/pytorch.md', { shell, folder: work, adapt, skipped, isLocal: true })).toBeGreaterThan(7);
  expect((await shell.run('ls model/model.pt', work)).exitCode).toBe(0);
});
