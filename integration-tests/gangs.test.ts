import { mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFailed, test, vi } from 'vitest';
import type { JobStatus } from '../conf/status/status.ts';
import { jsonLines, temporaryFolder, until, useCluster } from './harness.ts';

/** Jobs that share a cluster of two nodes with 8 vcores each, and the files that its NodeManagers unpack. */

const cluster = useCluster();

async function submit(name: string, lines: readonly string[]): Promise<string> {
  const folder = await temporaryFolder();
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, [`name: ${name}`, 'framework: none', 'source: null', 'runtime: system', ...lines].join('\n'));
  const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', file, '--detach']);
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
  const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
  onTestFailed(() => cluster.run(['kill', id]).then(() => undefined));
  return id;
}

async function timeOf(id: string, event: string): Promise<number> {
  const { stdout } = await cluster.run(['events', id, '--output', 'json']);
  return Date.parse(String(jsonLines(stdout).find((entry) => entry.type === event)?.at));
}

async function tasksOf(id: string): Promise<JobStatus['tasks']> {
  const { stdout } = await cluster.run(['history', 'show', id, '--output', 'json']);
  const [status] = jsonLines(stdout) as unknown as [JobStatus];
  return status.tasks;
}

const ended = (id: string) => async () => (await cluster.application(id)).state === 'FINISHED';

test('two gangs that do not fit together run one after the other, and a small job does not wait for the second one', async () => {
  // The gang that starts first runs long enough for the other one to ask in vain, and until the small job has ended.
  const smallEnded = path.join(await temporaryFolder(), 'ended');
  const gang = [
    `command: 'sleep 30; until [ -e ${smallEnded} ]; do sleep 0.2; done'`,
    'roles: {worker: {instances: 10, resources: {memory: 256m}}}',
  ];
  const [one, other] = await Promise.all([submit('one', gang), submit('other', gang)]);
  const small = await submit('small', ['command: sleep 1', 'queue: gpu', 'roles: {worker: {instances: 2, resources: {memory: 256m}}}']);
  for (const id of [small, one, other]) {
    await until(ended(id), { describe: () => cluster.application(id) });
    expect(await cluster.application(id)).toMatchObject({ finalStatus: 'SUCCEEDED' });
    await writeFile(smallEnded, '');
  }
  // A gang that did not fit has returned containers in which no program had started.
  const tasks = await Promise.all([one, other].map(tasksOf));
  expect(tasks.flat().some(({ attempts }) => attempts > 1)).toBe(true);
  expect(tasks.flat().map(({ programStarts }) => programStarts)).toEqual(Array.from({ length: 20 }, () => 1));
  for (const id of [one, other]) {
    expect((await cluster.run(['status', id])).stdout).not.toContain('RESTARTS');
  }
  const starts = await Promise.all([one, other].map((id) => timeOf(id, 'generation-started')));
  expect(await timeOf(small, 'job-finished')).toBeLessThan(Math.max(...starts));
});

test('a job that needs more than its queue can ever provide is refused before it takes containers', async () => {
  const folder = await temporaryFolder();
  const file = path.join(folder, 'job.yaml');
  await writeFile(
    file,
    'name: large\nframework: none\nsource: null\ncommand: "true"\nroles: {worker: {instances: 40, resources: {memory: 512m}}}\n',
  );
  const { stderr, exitCode } = await cluster.run(['submit', '--conf', file]);
  expect(exitCode).toBe(4);
  expect(stderr.replace(/\s+/g, ' ')).toContain(
    'The job requests 21 GiB of memory at the same time, including its ApplicationMaster, but queue root can provide at most 16 GiB of memory. ' +
      'Lower roles.worker.instances (40) or roles.worker.resources.memory',
  );
});

test('the source may contain names with any character, also if the NodeManagers run in the C locale', async () => {
  const restart = async (): Promise<void> => {
    for (const name of ['nodemanager1', 'nodemanager2'] as const) {
      await cluster.stop(name);
      await cluster.start(name);
    }
    await cluster.waitUntilReady();
  };
  vi.stubEnv('TONY_CLUSTER_LANG', 'C');
  try {
    await restart();
    const folder = await temporaryFolder();
    await mkdir(path.join(folder, 'süb'));
    await writeFile(path.join(folder, 'süb', '😀.txt'), 'content');
    await symlink('süb/😀.txt', path.join(folder, 'link'));
    const job = ['name: names', 'framework: none', 'runtime: system', "command: cat link 'süb/😀.txt'"];
    await writeFile(path.join(folder, 'job.yaml'), [...job, 'roles: {worker: {resources: {memory: 512m}}}'].join('\n'));
    const { stdout, exitCode } = await cluster.run(['submit', '--conf', path.join(folder, 'job.yaml')]);
    expect({ stdout, exitCode }).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('contentcontent') });
  } finally {
    vi.unstubAllEnvs();
    await restart();
  }
});
