import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { localPaths } from '../../client/files/local-layout.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { ROOT, startCommand } from '../command.ts';
import { temporaryFolder } from '../harness.ts';

const JOB = `name: rendezvous
framework: horovod
runtime: system
processesPerTask: 2
command: python3 horovod-rendezvous.py
heartbeat: { interval: 300ms }
roles:
  worker:
    instances: 2
`;

test('processes meet as those of Horovod do, and after a failure again, with the same ranks', async () => {
  const folder = await temporaryFolder();
  const program = 'horovod-rendezvous.py';
  await copyFile(path.join(ROOT, 'integration-tests', 'programs', program), path.join(folder, program));
  await writeFile(path.join(folder, 'job.yaml'), JOB);
  const root = path.join(folder, 'root');
  const words = ['submit', '--local', '--conf', path.join(folder, 'job.yaml')];
  const submitted = startCommand(words, { env: { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined } });
  const [id] = await submitted.output(/local_\d+_\d+/);
  expect((await submitted.result).exitCode).toBe(0);
  const paths = localPaths(root, id);
  const final = JSON.parse(await readFile(path.join(paths.history, 'final.json'), 'utf8')) as JobStatus;
  expect(final).toMatchObject({ state: 'succeeded', generations: 2 });
  const containers = await readdir(paths.containers);
  const outputs = await Promise.all(
    containers.map((container) => readFile(path.join(paths.containers, container, 'logs', 'stdout'), 'utf8').catch(() => '')),
  );
  const met = outputs.flatMap((text) => text.match(/\{.*\}/g) ?? []).map((line) => JSON.parse(line) as { rank: number });
  expect(met.sort((a, b) => a.rank - b.rank)).toEqual([
    { rank: 0, size: 4, generation: 2, global: 3, local: 1, cross: 1 },
    { rank: 1, size: 4, generation: 2, global: 0, local: 0, cross: 1 },
    { rank: 2, size: 4, generation: 2, global: 1, local: 1, cross: 0 },
    { rank: 3, size: 4, generation: 2, global: 2, local: 0, cross: 0 },
  ]);
});
