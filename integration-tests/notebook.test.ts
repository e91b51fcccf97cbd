import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { runCommand, startCommand } from './command.ts';
import { execute } from './execute.ts';
import { temporaryFolder, useCluster } from './harness.ts';
import { pythonWith } from './python-environment.ts';

const VERSION = '4.4.9';
const RUN_CELL = fileURLToPath(new URL('programs/run-cell.py', import.meta.url));
const PACKAGE = fileURLToPath(new URL('../python', import.meta.url));

const cluster = useCluster();

test('tony-ts notebook runs cells in a container, and keeps its token out of logs', async () => {
  const python = await jupyter();
  const file = await jobFile(python);
  const notebook = startCommand(['notebook', '--conf', file, '--port', '0'], { env: cluster.clientEnvironment() });
  const [url] = await notebook.output(/http:\S+/);
  const [id] = await notebook.output(/application_\d+_\d+/);
  const code = 'import os; print(6 * 7, os.environ["TONY_ROLE"], os.path.exists("train.py"))';
  expect((await execute(python, [RUN_CELL, url, code])).stdout).toBe('42 notebook True\nok\n');
  expect((await fetch(url.replace(/token=.*/, 'token=wrong'), { redirect: 'manual' })).status).toBe(302);

  const token = /token=(.*)/.exec(url)?.[1] ?? '';
  const { stdout, stderr } = await cluster.run(['logs', id]);
  expect(stdout + stderr).toContain('ServerApp');
  const { stdout: processes } = await execute('ps', ['-eo', 'args']);
  expect([token.length, (stdout + stderr).includes(token), processes.includes(token)]).toEqual([64, false, false]);

  // The terminal closes: the notebook continues, and its kernels too.
  const kernels = async (address: string): Promise<unknown[]> =>
    (await (await fetch(address.replace('/lab?', '/api/kernels?'))).json()) as unknown[];
  expect(await kernels(url)).toHaveLength(1);
  notebook.signal('SIGHUP');
  expect(await notebook.result).toMatchObject({ exitCode: 0, stderr: expect.stringContaining(`run: tony-ts notebook ${id}`) });
  const again = startCommand(['notebook', id, '--port', '0'], { env: cluster.clientEnvironment() });
  const [sameUrl] = await again.output(/http:\S+/);
  expect(sameUrl).toContain(token);
  expect(await kernels(sameUrl)).toHaveLength(1);
  again.signal('SIGINT');
  expect(await again.result).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('The notebook continues.') });
  await cluster.run(['kill', id, '--yes']);
  expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'KILLED' });
});

test('Ctrl-C ends a notebook that the command has started', async () => {
  const file = await jobFile(await jupyter());
  const notebook = startCommand(['notebook', '--conf', file, '--port', '0'], { env: cluster.clientEnvironment() });
  await notebook.output(/http:\S+/);
  const [id] = await notebook.output(/application_\d+_\d+/);
  notebook.signal('SIGINT');
  expect(await notebook.result).toMatchObject({ exitCode: 130, stderr: expect.stringContaining('because you interrupted') });
  expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'KILLED' });
});

test('a detached notebook on this machine outlives the command', async () => {
  const python = await jupyter();
  const env = { HOME: await temporaryFolder() };
  const detached = await startCommand(['notebook', '--local', '--detach', '--conf', await jobFile(python)], { env }).result;
  const id = detached.stdout.trim();
  // A failed test must not leave the job running.
  onTestFinished(async () => void (await runCommand(['kill', id, '--yes'], { env })));
  expect(detached).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^local_\d+_\d+\n$/) });
  expect(detached.stderr).toContain(`run: tony-ts notebook ${id}`);
  const notebook = startCommand(['notebook', id, '--port', '0'], { env });
  const [url] = await notebook.output(/http:\S+/);
  expect((await execute(python, [RUN_CELL, url, 'print(6 * 7)'])).stdout).toBe('42\nok\n');
  const killed = await startCommand(['kill', id, '--yes'], { env }).result;
  expect(killed.exitCode).toBe(0);
  expect(await notebook.result).toMatchObject({ stderr: expect.stringContaining(`${id} has ended`) });
});

async function jupyter(): Promise<string> {
  const folder = fileURLToPath(new URL(`../.cache/jupyterlab-${VERSION}`, import.meta.url));
  return await pythonWith(folder, [`jupyterlab==${VERSION}`, 'ipykernel']);
}

/** Writes a job file with four workers, whose programs find the interpreter on their PATH. */
async function jobFile(python: string): Promise<string> {
  const place = await temporaryFolder();
  writeFileSync(path.join(place, 'train.py'), 'print(1)\n');
  const file = path.join(place, 'job.yaml');
  writeFileSync(
    file,
    `name: mnist\nframework: none\ncommand: python3 train.py\nenv: {PATH: '${path.dirname(python)}:${process.env.PATH}'}\n` +
      'roles: {worker: {instances: 4, resources: {memory: 1g}}}\nmaster: {resources: {memory: 512m}}\n',
  );
  return file;
}

test('a Python without JupyterLab is reported', async () => {
  // -S hides the installed packages.
  const ended = execute('python3', ['-S', '-m', 'tony._notebook', '60'], { env: { ...process.env, PYTHONPATH: PACKAGE } });
  await expect(ended).rejects.toMatchObject({ code: 78, stderr: expect.stringContaining('JupyterLab is not installed') });
});
