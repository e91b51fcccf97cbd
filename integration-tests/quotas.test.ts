import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { JobStatus } from '../conf/status/status.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { ResourceManager } from '../hadoop/yarn/resource-manager.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { jsonLines, until, useCluster } from './harness.ts';

/** Quotas on a real cluster: the ApplicationMaster applies the site file from HDFS, regardless of the client's configuration. */

const cluster = useCluster();
const SITE = '/apps/tony-ts';
let configuration: HadoopConfiguration;
let storage: Storage;
let folder: string;
/** Configuration folder of a user who has created a site file without limits. */
let cheating: string;

beforeAll(async () => {
  configuration = await HadoopConfiguration.fromEnvironment(cluster.environment());
  storage = createStorage({ hadoop: configuration, user: cluster.administrator });
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-quotas-test-'));
  cheating = path.join(folder, 'conf');
  await mkdir(cheating);
  await writeFile(path.join(cheating, 'tony-site.yaml'), 'quotas: {}\n');
  await cluster.hdfsMakeFolder('/user/carol', '700');
  await giveTo('carol', '/user/carol');
});
afterEach(() => cluster.hdfsRemove(SITE));
afterAll(async () => {
  storage.close();
  await cluster.hdfsRemove('/user/carol');
  await rm(folder, { recursive: true, force: true });
});

async function settle(quotas: string): Promise<void> {
  await cluster.hdfsMakeFolder(SITE, '755');
  await storage.write(`${configuration.defaultFs}${SITE}/site.yaml`, Buffer.from(`quotas:\n${quotas.replace(/^/gm, '  ')}\n`));
}

async function giveTo(user: string, file: string): Promise<void> {
  const url = `${cluster.nameNode}/webhdfs/v1${file}?op=SETOWNER&owner=${user}&user.name=${cluster.administrator}`;
  const answer = await fetch(url, { method: 'PUT' });
  if (!answer.ok) {
    throw new Error(await answer.text());
  }
}

interface Request {
  readonly user: string;
  readonly workers: number;
  readonly queue?: string;
  readonly words?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

async function submit({
  user,
  workers,
  queue = 'gpu',
  words = [],
  environment = {},
}: Request): Promise<{ id: string; end: () => Promise<void> }> {
  const name = `${user}-${workers}-${Math.random().toString(36).slice(2)}`;
  const flag = path.join(folder, `${name}.end`);
  const file = path.join(folder, `${name}.yaml`);
  await writeFile(
    file,
    `name: ${name}\nqueue: ${queue}\nframework: none\nruntime: system\ncommand: 'while [ ! -e ${flag} ]; do sleep 0.1; done'\nroles: {worker: {instances: ${workers}, resources: {memory: 512m, gpus: 1}}}\n`,
  );
  const { stdout, stderr } = await cluster.run(['submit', '--conf', file, '--detach', '--output', 'json', ...words], {
    env: { HADOOP_USER_NAME: user, ...environment },
  });
  const submitted = jsonLines(stdout).find(({ type }) => type === 'submitted');
  if (submitted === undefined) {
    throw new Error(stderr);
  }
  return { id: String(submitted.id), end: () => writeFile(flag, '') };
}

async function status(id: string, user: string): Promise<JobStatus> {
  const { stdout } = await cluster.run(['status', id, '--output', 'json'], { env: { HADOOP_USER_NAME: user } });
  return jsonLines(stdout)[0] as never;
}

function reaches(id: string, user: string, state: string): Promise<JobStatus> {
  return until(
    async () => {
      const seen = await status(id, user);
      return seen.state === state ? seen : undefined;
    },
    { describe: `${id} ${state}` },
  );
}

/** Returns the time at which the ResourceManager accepted the application. Only the application's user can see this time. */
async function startOf(id: string, user: string): Promise<number> {
  const resourceManager = ResourceManager.of(configuration, user);
  try {
    return (await resourceManager.application(id)).startedAt;
  } finally {
    resourceManager.close();
  }
}

/** Adds a role that ends before the workers start. */
const STAGED = [
  'roles.load.command=exit 0',
  'roles.load.kind=independent',
  'roles.load.resources.memory=256m',
  'roles.worker.after.role=load',
];

test('when two jobs submitted at the same time exceed a limit together, one job waits until the other ends', async () => {
  await settle('users: {carol: {total: {instances: 3}}}\nqueues: {gpu: {roles: {worker: {total: {gpus: 4}}}}}');
  const both = await Promise.all([submit({ user: 'alice', workers: 3 }), submit({ user: 'bob', workers: 3 })]);
  const users = ['alice', 'bob'];
  const submitted = await Promise.all(
    both.map(async (job, index) => {
      const user = users[index] ?? '';
      return { ...job, user, startedAt: await startOf(job.id, user) };
    }),
  );
  // The application IDs do not show which job was submitted first.
  const [first, second] = submitted.sort((a, b) => a.startedAt - b.startedAt || (a.id < b.id ? -1 : 1)) as [
    (typeof submitted)[0],
    (typeof submitted)[0],
  ];
  const other = await submit({ user: 'carol', workers: 3, queue: 'default', words: STAGED.flatMap((each) => ['--set', each]) });
  await reaches(first.id, first.user, 'running');
  const waiting = await reaches(second.id, second.user, 'waiting');
  expect(waiting.message).toBe(
    `Waiting for other jobs to end: quotas.queues.gpu.roles.worker.total.gpus is 4 gpus, of which ${first.id} holds 3 gpus, and this job requests 3 gpus.`,
  );
  expect(waiting.tasks.every(({ containerId }) => containerId === null)).toBe(true);
  await reaches(other.id, 'carol', 'running');
  // For a job without resource tags, tony-ts uses the ResourceManager's report. All users can see the resources of a job in this report,
  // but not the number of its containers.
  const resourceManager = ResourceManager.of(configuration, 'carol');
  try {
    expect(await resourceManager.application(first.id)).toMatchObject({ runningContainers: 0, used: { 'yarn.io/gpu': 3 } });
  } finally {
    resourceManager.close();
  }
  await first.end();
  await reaches(second.id, second.user, 'running');
  await Promise.all([second.end(), other.end()]);
  expect((await reaches(second.id, second.user, 'succeeded')).state).toBe('succeeded');
  await reaches(other.id, 'carol', 'succeeded');
});

describe("the ApplicationMaster rejects a job beyond the site file's limits that the client accepted because of", () => {
  test.each<[string, Partial<Request>]>([
    ["the user's own site file", {}],
    ['another instance count by --set', { workers: 1, words: ['--set', 'roles.worker.instances=3'] }],
  ])('%s', async (_, changes) => {
    await settle('roles: {worker: {instances: 2, task: {gpus: 1}}}');
    const { id } = await submit({ user: 'alice', workers: 3, environment: { TONY_CONF_DIR: cheating }, ...changes });
    const { message } = await reaches(id, 'alice', 'failed');
    expect(message).toMatch(
      /^The job exceeds the limits in hdfs:\S+\/apps\/tony-ts\/site\.yaml\. quotas\.roles\.worker\.instances: role worker requests 3 tasks, but the limit is 2/,
    );
    // The ResourceManager processes the end of an application with a delay.
    const ended = await until(
      async () => {
        const application = await cluster.application(id);
        return application.state === 'FINISHED' ? application : undefined;
      },
      { describe: `${id} FINISHED` },
    );
    expect(ended.diagnostics).toContain('quotas.roles.worker.instances');
  });
});

test('with `over: fail`, a job that exceeds a limit together with others fails immediately', async () => {
  await settle('over: fail\ngroups: {research: {total: {gpus: 4}}}');
  const first = await submit({ user: 'alice', workers: 3 });
  const second = await submit({ user: 'bob', workers: 2, queue: 'default' });
  const { message } = await reaches(second.id, 'bob', 'failed');
  expect(message).toContain(`quotas.groups.research.total.gpus is 4 gpus, of which ${first.id} holds 3 gpus, and this job requests 2 gpus`);
  await first.end();
  await reaches(first.id, 'alice', 'succeeded');
});
