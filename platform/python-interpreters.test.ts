import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findPythons } from './python-interpreters.ts';
import type { Packages } from './python-packages.ts';

const packages: Packages = {
  title: 'TensorBoard',
  machine: 'x86_64',
  pythons: new Map([
    ['3.9', ['/packages/old']],
    ['3.10', ['/packages/new']],
    ['3.11', ['/packages/new']],
  ]),
};

/** Creates programs that respond like a Python interpreter of the given kind. */
async function pathWith(programs: Readonly<Record<string, string>>): Promise<{ PATH: string }> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'pythons-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await mkdir(path.join(folder, 'bin'));
  for (const [name, script] of Object.entries(programs)) {
    await writeFile(path.join(folder, 'bin', name), `#!/bin/sh\n${script}\n`);
    await chmod(path.join(folder, 'bin', name), 0o755);
  }
  return { PATH: `relative:/nowhere:${path.join(folder, 'bin')}` };
}

test('lists each working Python version once, the newest first', async () => {
  const environment = await pathWith({
    python3: 'echo 3.10 x86_64 cpython',
    'python3.9': 'echo 3.9 x86_64 cpython',
    'python3.10': 'echo 3.10 x86_64 cpython',
    'python3.11': 'echo "command not found" >&2; exit 127',
  });
  const found = await findPythons(packages, environment);
  expect(
    typeof found === 'string' ? found : found.map(({ version, command, packages: folders }) => [version, path.basename(command), folders]),
  ).toEqual([
    ['3.10', 'python3.10', ['/packages/new']],
    ['3.9', 'python3.9', ['/packages/old']],
  ]);
});

test('explains why no interpreter can run the packages', async () => {
  expect(await findPythons(packages, { PATH: '/nowhere' })).toBe('TensorBoard needs Python 3.9 to 3.11 on the PATH.');
  expect(await findPythons(packages, await pathWith({ python3: 'echo 3.6 x86_64 cpython' }))).toMatch(
    /on the PATH; .*\/python3 is 3\.6\.$/,
  );
  expect(await findPythons(packages, await pathWith({ python3: 'echo 3.11 aarch64 cpython' }))).toMatch(
    /is for aarch64, but these packages/,
  );
  expect(await findPythons(packages, await pathWith({ python3: 'echo 3.11 x86_64 pypy' }))).toMatch(/is pypy/);
});
