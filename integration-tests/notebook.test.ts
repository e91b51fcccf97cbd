import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { startCommand } from './command.ts';
import { temporaryFolder, useCluster } from './harness.ts';
import { pythonWith } from './python-environment.ts';

const execute = promisify(execFile);
const VERSION = '4.4.9';
const RUN_CELL = fileURLToPath(new URL('programs/run-cell.py', import.meta.url));
const PACKAGE = fileURLToPath(new URL('../python', import.meta.url));

const cluster = useCluster();

test('tony-ts notebook runs cells in a container, keeps its token out of logs, and ends on Ctrl-C', { timeout: 400_000 }, async () => {
  const folder = fileURLToPath(new URL(`../.cache/jupyterlab-${VERSION}`, import.meta.url));
  const python = await pythonWith(folder, [`jupyterlab==${VERSION}`, 'ipykernel']);
  const place = await temporaryFolder();
  writeFileSync(path.join(place, 'train.py'), 'print(1)\n');
  const file = path.join(place, 'job.yaml');
  writeFileSync(
    file,
    `name: mnist\nframework: none\ncommand: python3 train.py\nenv: {PATH: '${path.dirname(python)}:${process.env.PATH}'}\n` +
      'roles: {worker: {instances: 4, resources: {memory: 1g}}}\nmaster: {memory: 512m}\n',
  );
  const notebook = startCommand(['notebook', '--conf', file, '--port', '0'], { env: cluster.clientEnvironment(), timeoutMs: 200_000 });
  const [url] = await notebook.output(/http:\S+/, 120_000);
  const [id] = await notebook.output(/application_\d+_\d+/);
  const code = 'import os; print(6 * 7, os.environ["TONY_ROLE"], os.path.exists("train.py"))';
  expect((await execute(python, [RUN_CELL, url, code])).stdout).toBe('42 notebook True\nok\n');
  expect((await fetch(url.replace(/token=.*/, 'token=wrong'), { redirect: 'manual' })).status).toBe(302);

  const token = /token=(.*)/.exec(url)?.[1] ?? '';
  const { stdout, stderr } = await cluster.run(['logs', id]);
  expect(stdout + stderr).toContain('ServerApp');
  const { stdout: processes } = await execute('ps', ['-eo', 'args']);
  expect([token.length, (stdout + stderr).includes(token), processes.includes(token)]).toEqual([64, false, false]);
  notebook.signal('SIGINT');
  expect(await notebook.result).toMatchObject({ exitCode: 130, stderr: expect.stringContaining('because you interrupted') });
  expect(await cluster.ended(id)).toMatchObject({ state: 'KILLED' });
});

test('a Python without JupyterLab is reported', async () => {
  // -S hides the installed packages.
  const ended = execute('python3', ['-S', '-m', 'tony._notebook', '60'], { env: { ...process.env, PYTHONPATH: PACKAGE } });
  await expect(ended).rejects.toMatchObject({ code: 78, stderr: expect.stringContaining('JupyterLab is not installed') });
});
