import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { ensureTensorBoard } from '../../client/python/ensure-tensorboard.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder, USER, until, useOwnCluster } from '../harness.ts';

/** TensorBoard at the tracking URL of a job on a cluster with Kerberos, as a browser with SPNEGO requests it. */

const cluster = useOwnCluster('kerberos');
beforeAll(() => ensureTensorBoard((line) => console.log(line)));

test('TensorBoard shows a job’s curves to the job’s user, and to no other user', async () => {
  const folder = await temporaryFolder();
  const [file, end] = [path.join(folder, 'job.yaml'), path.join(folder, 'end')];
  const yaml = [
    'name: curves',
    'runtime: system',
    'tensorboard: true',
    'command: node long-training.mjs',
    `source: ${path.join(ROOT, 'integration-tests', 'programs')}`,
    `env: {END: ${end}}`,
    'roles: {worker: {instances: 1, resources: {memory: 768m}}}',
  ];
  await writeFile(file, `${yaml.join('\n')}\n`);
  const submitted = await cluster.run(['submit', '--conf', file, '--detach'], { env: cluster.environment(USER) });
  expect(submitted).toMatchObject({ exitCode: 0, stderr: '' });
  const id = /application_\d+_\d+/.exec(submitted.stdout)?.[0] ?? '';

  const asked = async (user: string, place: string): Promise<{ status: number; body: string }> => {
    const options = ['-sS', '--location', '--negotiate', '--user', ':', '--cookie', '', '-w', '\n%{http_code}'];
    const { stdout } = await execute('curl', [...options, `${cluster.resourceManager}/proxy/${id}/${place}`], {
      env: { ...process.env, ...cluster.environment(user) },
    });
    const at = stdout.lastIndexOf('\n');
    return { status: Number(stdout.slice(at + 1)), body: stdout.slice(0, at) };
  };
  const job = async () => JSON.parse((await asked(USER, 'tony/api/v1/job')).body) as JobStatus;
  await until(async () => (await job()).tensorboard.state === 'ready', { describe: job });
  const points = async () => JSON.parse((await asked(USER, 'data/plugin/scalars/scalars?tag=loss&run=train')).body) as number[][];
  const [first] = await until(async () => (await points()).length > 0 && (await points()), { describe: 'the curve has points' });
  expect(first).toEqual([expect.any(Number), expect.any(Number), expect.any(Number)]);
  expect((await asked('bob', 'data/runs')).status).toBe(403);

  await writeFile(end, '');
  expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
});
