import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { QuotaUsage } from '../client/quotas/quota-usage.ts';
import type { JobStatus } from '../conf/status/status.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import { jsonLines, until, useCluster } from './harness.ts';

const cluster = useCluster();
const SITE = '/apps/tony-ts';
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-usage-test-'));
  const configuration = await HadoopConfiguration.fromEnvironment(cluster.environment());
  const storage = createStorage({ hadoop: configuration, user: cluster.administrator });
  await cluster.hdfsMakeFolder(SITE, '755');
  const site = `quotas:
  roles: {worker: {total: {gpus: 8}}}
  users: {'*': {total: {gpus: 3, memory: 8g}}}
  groups: {research: {total: {gpus: 6}}}
  queues: {gpu: {roles: {'*': {total: {gpus: 4}}}}}
`;
  await storage.write(`${configuration.defaultFs}${SITE}/site.yaml`, Buffer.from(site));
  storage.close();
});
afterAll(async () => {
  await cluster.hdfsRemove(SITE);
  await rm(folder, { recursive: true, force: true });
});

async function submit(user: string, queue: string, workers: number): Promise<{ id: string; end: () => Promise<void> }> {
  const flag = path.join(folder, `${user}.end`);
  const file = path.join(folder, `${user}.yaml`);
  await writeFile(
    file,
    `name: ${user}-job\nqueue: ${queue}\nframework: none\nruntime: system\ncommand: 'while [ ! -e ${flag} ]; do sleep 0.1; done'\nroles: {worker: {instances: ${workers}, resources: {memory: 512m, gpus: 1}}}\n`,
  );
  const { stdout, stderr } = await cluster.run(['submit', '--conf', file, '--detach', '--output', 'json'], {
    env: { HADOOP_USER_NAME: user },
  });
  const submitted = jsonLines(stdout).find(({ type }) => type === 'submitted');
  if (submitted === undefined) {
    throw new Error(stderr);
  }
  return { id: String(submitted.id), end: () => writeFile(flag, '') };
}

async function reaches(id: string, user: string, state: string): Promise<void> {
  await until(
    async () => {
      const { stdout } = await cluster.run(['status', id, '--output', 'json'], { env: { HADOOP_USER_NAME: user } });
      return (jsonLines(stdout)[0] as unknown as JobStatus | undefined)?.state === state;
    },
    { describe: `${id} ${state}` },
  );
}

async function usage(...words: string[]): Promise<QuotaUsage> {
  const { stdout, stderr } = await cluster.run(['quotas', 'usage', '--output', 'json', ...words], { env: { HADOOP_USER_NAME: 'carol' } });
  const [usage] = jsonLines(stdout);
  if (usage === undefined) {
    throw new Error(stderr);
  }
  return usage as unknown as QuotaUsage;
}

function rows({ totals }: QuotaUsage): string[] {
  return totals.map(
    ({ user, group, queue, role, resource, used, limit, jobs, waiting }) =>
      `${[user, group, queue, role].filter((each) => each !== null).join(' ')}: ${resource} ${used}/${limit}, ${jobs.length} + ${waiting.length}`,
  );
}

test('quotas usage counts running and waiting jobs by role, user, group and queue, and shows why a job waits', async () => {
  const first = await submit('alice', 'gpu', 3);
  await reaches(first.id, 'alice', 'running');
  const second = await submit('bob', 'gpu', 2);
  await reaches(second.id, 'bob', 'waiting');
  const seen = await usage();
  expect(seen).toMatchObject({ from: expect.stringMatching(/^hdfs:.*site\.yaml$/), over: 'wait', undeclared: [] });
  expect(rows(seen)).toEqual([
    'worker: gpus 3/8, 1 + 0',
    'alice: memoryBytes 2684354560/8589934592, 1 + 0',
    'alice: gpus 3/3, 1 + 0',
    'bob: memoryBytes 0/8589934592, 0 + 0',
    'bob: gpus 0/3, 0 + 0',
    'research: gpus 3/6, 1 + 0',
    'gpu worker: gpus 3/4, 1 + 1',
  ]);
  expect(seen.waiting).toEqual([
    {
      id: second.id,
      user: 'bob',
      queue: 'gpu',
      shortages: [
        {
          path: 'quotas.queues.gpu.roles.*.total.gpus',
          resource: 'gpus',
          limit: 4,
          asked: 2,
          used: 3,
          holders: [first.id],
          holderCount: 1,
        },
      ],
    },
  ]);
  expect(rows(await usage('--queue', 'gpu'))).toEqual(['gpu worker: gpus 3/4, 1 + 1']);
  expect(rows(await usage('--user', 'alice')).length).toBe(2);
  expect(rows(await usage('--role', 'worker')).length).toBe(2);

  const { stdout } = await cluster.run(['quotas', 'usage']);
  const lines = stdout.trimEnd().split('\n');
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(80);
  expect(lines).toContainEqual(expect.stringMatching(/^queue gpu, role worker +gpus +3 +4 +75 % +1 +1$/));
  expect(stdout).toContain(`${second.id} of bob waits`);

  await first.end();
  await reaches(second.id, 'bob', 'running');
  const after = await usage();
  expect(rows(after)).toContain('gpu worker: gpus 2/4, 1 + 0');
  expect(after.waiting).toEqual([]);
  await second.end();
  await reaches(second.id, 'bob', 'succeeded');
});
