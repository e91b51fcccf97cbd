import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { release, tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parseFacts } from '../../conf/node-probe.ts';

const SCRIPT = path.join(import.meta.dirname, 'probe.sh');

/** Runs the script in a folder whose runtime is a shell script instead of Node.js. */
async function runWith(node: string, pythons: Readonly<Record<string, string>> = {}) {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-probe-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = path.join(folder, 'runtime/bin/node');
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, node);
  await chmod(file, 0o755);
  for (const [name, script] of Object.entries(pythons)) {
    await writeFile(path.join(folder, name), script, { mode: 0o755 });
  }
  const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
  return new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) => {
    execFile('bash', [SCRIPT], { cwd: folder, env }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

const STARTS = '#!/bin/bash\nif [ "$1" = --version ]; then echo v22.0.0; else cat facts; fi\n';
// A real executable contains such a version string for each symbol version that it uses.
const FAILS = '#!/bin/bash\n# GLIBC_2.17 GLIBC_2.28\necho "node: libc.so.6: version \'GLIBC_2.28\' not found" >&2\nexit 1\n';

test('if Node.js starts, the script passes the facts to Node.js', async () => {
  const { code, stdout, stderr } = await runWith(STARTS);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(parseFacts(stdout)).toMatchObject({
    runtime: ['v22.0.0'],
    kernel: [expect.stringContaining(release())],
    cores: [expect.stringMatching(/^\d+$/)],
    diskFreeKb: [expect.stringMatching(/^\d+$/)],
    ports: [expect.stringMatching(/^\d+-\d+$/)],
  });
});

test('if Node.js does not start, the script writes the facts to stderr, within the 4096 bytes that YARN keeps', async () => {
  const { code, stderr } = await runWith(FAILS);
  expect(code).toBe(64);
  expect(Buffer.byteLength(stderr)).toBeLessThan(4096);
  const facts = parseFacts(stderr);
  expect(facts).toMatchObject({ runtimeGlibc: ['2.28'], runtimeError: ["node: libc.so.6: version 'GLIBC_2.28' not found"] });
  expect(facts.runtime).toBeUndefined();
});

test('the script omits commands that are named like Python but do not run', async () => {
  const { stdout } = await runWith(STARTS, { 'python3.98': '#!/bin/bash\nexit 127\n', 'python3.99': '#!/bin/bash\necho 3.99.0 pip\n' });
  const names = parseFacts(stdout).python?.map((python) => python.split(' ')[0]);
  expect(names).toContain('python3.99');
  expect(names).not.toContain('python3.98');
});
