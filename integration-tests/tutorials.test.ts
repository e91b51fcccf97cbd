import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { followTutorial } from './follow-tutorial.ts';
import { temporaryFolder, USER, useCluster } from './harness.ts';
import { pythonThatImports } from './python-environment.ts';
import { ReadersShell } from './readers-shell.ts';

/** Follows the tutorials, on a cluster without Kerberos. long/kerberos-tutorial.test.ts follows the first one on a cluster with Kerberos. */

const cluster = useCluster();
const pytorch = await pythonThatImports('torch');

afterAll(() => cluster.hdfsRemove('/apps'));

async function readTutorial(name: string, skipped: readonly RegExp[]): Promise<number> {
  const folder = await temporaryFolder();
  const shell = await ReadersShell.open(folder, cluster, cluster.clientEnvironment(), cluster.administrator);
  const adapt = (text: string): string =>
    text
      .replaceAll('/etc/hadoop/conf', cluster.configuration)
      .replaceAll(/\balice\b/g, USER)
      .replace(/(command:|submit .* --) python3 /, `$1 ${pytorch} `);
  return await followTutorial(name, { shell, folder: path.join(folder, 'work'), adapt, skipped });
}

test.skipIf(pytorch === null)('a reader follows the tutorial of PyTorch: a killed worker resumes, and the model is fetched', async () => {
  const skipped = [/^kinit$/, /^tony-ts doctor --probe/];
  expect(await readTutorial('docs/tutorials/pytorch.md', skipped)).toBeGreaterThan(7);
});

test('a reader follows the tutorial of TensorFlow.js from one process to two', async () => {
  expect(await readTutorial('docs/tutorials/tfjs.md', [])).toBeGreaterThan(7);
});

test('an admin follows the tutorial for admins: a quota refuses a job, and a failure is shown', async () => {
  // The other tests need the cluster and the installed packages.
  const skipped = [/^npm ci$/, /^npm run cluster -- down$/];
  expect(await readTutorial('docs/tutorials/admin.md', skipped)).toBeGreaterThan(7);
});
