import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { type Command, ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder, until, useOwnCluster } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';

/** Sessions with the tasks of alice on a cluster with Kerberos, HTTPS and high availability, and bob, who must not reach them. */

const JUPYTERLAB = '4.4.9';
const RUN_CELL = path.join(ROOT, 'integration-tests', 'programs', 'run-cell.py');

let python: string;
beforeAll(async () => {
  python = await pythonWith(path.join(ROOT, '.cache', `jupyterlab-${JUPYTERLAB}`), [`jupyterlab==${JUPYTERLAB}`, 'ipykernel']);
});
const cluster = useOwnCluster('kerberos+tls+ha');

const start = (user: string, ...words: readonly string[]): Command => cluster.startCommand(words, { env: cluster.environment(user) });

test('alice uses a notebook, and bob reaches neither the notebook nor its task', async () => {
  const file = path.join(await temporaryFolder(), 'job.yaml');
  const env = `env: {PATH: '${path.dirname(python)}:${process.env.PATH}'}`;
  await writeFile(file, `name: notes\nframework: none\nruntime: system\nsource: null\ncommand: 'true'\n${env}\nroles: {worker: {}}\n`);
  const notebook = start('alice', 'notebook', '--conf', file, '--port', '0');
  const [url] = await notebook.output(/http:\S+/);
  const [id] = await notebook.output(/application_\d+_\d+/);
  expect((await execute(python, [RUN_CELL, url, 'import os; print(os.environ["TONY_ROLE"])'])).stdout).toBe('notebook\nok\n');

  const attempts = [
    ['notebook', id, '--port', '0'],
    ['shell', id, 'notebook:0'],
    ['exec', id, 'notebook:0', '--', 'id'],
    ['forward', id, 'notebook:0', '8888'],
  ];
  for (const words of attempts) {
    const { exitCode, stdout, stderr } = await start('bob', ...words).result;
    expect({ exitCode, stdout, stderr }, words.join(' ')).toEqual({
      exitCode: ['shell', 'exec'].includes(words[0] ?? '') ? 255 : 4,
      stdout: '',
      stderr: `error: ${id} is a job of alice; you are bob.\nhint: Only alice can open sessions with its tasks.\n`,
    });
  }
  expect(await start('alice', 'exec', id, 'notebook:0', '--', 'sh', '-c', 'echo $TONY_ROLE').result).toMatchObject({
    exitCode: 0,
    stdout: 'notebook\n',
  });

  notebook.signal('SIGINT');
  expect(await notebook.result).toMatchObject({ exitCode: 130 });
  const status = () => start('alice', 'status', id).result;
  await until(async () => (await status()).stdout.includes('killed'), { describe: status });
});
