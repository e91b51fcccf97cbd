import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { JobPlan } from '../client/plan/job-plan.ts';
import { jsonLines, temporaryFolder, until, useCluster } from './harness.ts';

const MEBIBYTE = 1 << 20;

/** The plan that `submit` prints before it starts a job. The cluster has two nodes, each with 8 GiB, 8 vcores and 4 GPUs. */

const cluster = useCluster();
const HOME = '/user/alice';
/** A separate staging folder, without files that other tests have staged. */
const STAGING = `${HOME}/plans`;
let number = 0;

interface Request {
  readonly workers?: number;
  readonly gpus?: number;
  readonly lines?: readonly string[];
  readonly staging?: string;
}

/** Writes a job that sleeps until it is killed. Returns the file and the arguments that submit it. */
async function request({ workers = 1, gpus = 0, lines = [], staging = STAGING }: Request = {}): Promise<{ file: string; words: string[] }> {
  const folder = await temporaryFolder();
  await mkdir(path.join(folder, 'source'));
  await writeFile(path.join(folder, 'source', 'hello.sh'), `echo ${number++} ${Math.random()}\n`);
  const file = path.join(folder, 'job.yaml');
  const worker = `{instances: ${workers}, kind: gang, resources: {memory: 512m, gpus: ${gpus}}}`;
  const job = ['name: plan', 'queue: gpu', 'framework: none', 'runtime: system', 'source: source', "command: 'sleep 300'"];
  await writeFile(file, `${[...job, `roles: {worker: ${worker}}`, ...lines].join('\n')}\n`);
  return { file, words: ['submit', '--conf', file, '--staging', staging] };
}

type PlanValue = JobPlan & { readonly type: 'plan' };
type Value = Readonly<Record<string, unknown>> & { readonly type: string };

async function values(words: readonly string[], exitCode = 0, env: Readonly<Record<string, string>> = {}): Promise<Value[]> {
  const done = await cluster.run([...words, '--output', 'json'], { env });
  expect(done).toMatchObject({ exitCode });
  return jsonLines(done.stdout) as Value[];
}

const planIn = (all: readonly Value[]) => all.find(({ type }) => type === 'plan') as unknown as PlanValue;

async function start(words: readonly string[]): Promise<{ id: string; plan: PlanValue; end: () => Promise<void> }> {
  const all = await values([...words, '--detach']);
  const id = String(all.find(({ type }) => type === 'submitted')?.id);
  const end = async (): Promise<void> => {
    await cluster.run(['kill', id]);
    await cluster.ended(id);
  };
  return { id, plan: planIn(all), end };
}

beforeAll(() => cluster.hdfsRemove(STAGING));

describe('a dry run', () => {
  test('shows the plan and the request without secrets, and leaves no files or applications', async () => {
    const { words } = await request({ workers: 2, gpus: 1, lines: ['tensorboard: false'] });
    const before = { files: await cluster.hdfsTree(HOME), applications: (await cluster.applications()).length };
    const [plan, asked, ...others] = await values([...words, '--dry-run']);
    expect(others).toEqual([]);
    expect(plan).toMatchObject({
      type: 'plan',
      where: 'yarn',
      user: 'alice',
      queue: 'gpu',
      containers: [
        { role: 'ApplicationMaster', instances: { min: 1, max: 1 }, resources: { memoryBytes: 1024 * MEBIBYTE, vcores: 1 }, fitNow: 1 },
        { role: 'worker', instances: { min: 2, max: 2 }, resources: { memoryBytes: 512 * MEBIBYTE, vcores: 1, gpus: 1 }, fitNow: 2 },
      ],
      total: {
        containers: { min: 3, max: 3 },
        resources: { memoryBytes: { min: 2048 * MEBIBYTE, max: 2048 * MEBIBYTE }, gpus: { min: 2, max: 2 } },
      },
      headroom: { queue: 'root.gpu', maximum: { memoryBytes: 16384 * MEBIBYTE, vcores: 16, gpus: 8 } },
      verdict: { type: 'fits' },
      notes: [],
    });
    expect(asked).toMatchObject({ type: 'request', method: 'POST', url: `${cluster.resourceManager}/ws/v1/cluster/apps` });
    const body = asked?.body as { 'application-id': string; 'am-container-spec': Record<string, { secrets?: { entry: unknown[] } }> };
    expect(body).toMatchObject({ 'application-name': 'plan', queue: 'gpu', resource: { memory: 1024, vCores: 1 } });
    expect(body['am-container-spec'].credentials?.secrets?.entry).toEqual(
      ['tony.job', 'tony.job-digest', 'tony.certificate', 'tony.key'].map((key) => ({ key, value: '***' })),
    );
    // The output contains the key neither in plain text nor in base64.
    expect(JSON.stringify(body)).not.toMatch(/-----BEGIN|LS0tLS1CRUdJTi/);
    expect(await cluster.hdfsTree(HOME)).toEqual(before.files);
    expect((await cluster.applications()).length).toBe(before.applications);
    await expect(cluster.application(body['application-id'])).rejects.toThrow('404');
  });

  test('shows the plan of a local job without a cluster', async () => {
    const { file } = await request({ workers: 2 });
    const words = ['submit', '--conf', file, '--local', '--dry-run'];
    const root = await temporaryFolder();
    const env = { HADOOP_CONF_DIR: '', TONY_LOCAL_DIR: path.join(root, 'local') };
    const { stdout, exitCode } = await cluster.run(words, { env });
    expect({ stdout, exitCode }).toEqual({
      stdout: expect.stringMatching(
        /^would start on this machine:\n +1 ApplicationMaster\n +2 worker +ranks 0-1 +sleep 300\ncopy: .* \(source \d+ B, tony .* MB\)\n$/,
      ),
      exitCode: 0,
    });
    expect(await values(words)).toMatchObject([{ type: 'plan', where: 'local', verdict: { type: 'fits' } }]);
  });
});

test('uploads have the planned size, and the next plan needs no upload', async () => {
  const { words } = await request();
  const all = await values([...words, '--detach']);
  const { uploads, uploadBytes } = planIn(all);
  expect(uploads.map(({ name }) => name)).toEqual(['source', 'tony']);
  expect(uploads[0]?.missing).toBe(uploads[0]?.bytes);
  expect(uploadBytes).toBe(uploads.reduce((sum, { missing }) => sum + missing, 0));
  const staged = all.filter(({ type }) => type === 'staged');
  expect(staged.map(({ name, bytes }) => ({ name, bytes }))).toEqual(
    expect.arrayContaining(uploads.map(({ name, bytes }) => ({ name, bytes }))),
  );
  const sizes = (await cluster.hdfsTree(`${STAGING}/cache`)).map(({ length }) => length);
  for (const { bytes } of uploads) {
    expect(sizes).toContain(bytes);
  }

  const again = planIn(await values([...words, '--dry-run']));
  expect(again.uploads).toEqual(uploads.map(({ name, bytes }) => ({ name, bytes, missing: 0 })));
  expect(again.uploadBytes).toBe(0);
  const id = String(all.find(({ type }) => type === 'submitted')?.id);
  await cluster.run(['kill', id]);
  await cluster.ended(id);
});

test('a job waits for GPUs that another job holds, and its plan predicts the reason', async () => {
  const first = await start((await request({ workers: 6, gpus: 1 })).words);
  try {
    expect(first.plan.verdict).toEqual({ type: 'fits' });
    await until(async () => (await cluster.application(first.id)).runningContainers === 7, { describe: 'six workers' });
    const { words } = await request({ workers: 3, gpus: 1 });
    const plan = planIn(await values([...words, '--dry-run']));
    expect(plan.verdict).toEqual({ type: 'waits', reasons: ['queue root.gpu has 2 gpus left of 8 gpus, but the job requests 3 gpus'] });
    expect(plan.containers.map(({ fitNow }) => fitNow)).toEqual([1, 2]);
    expect(plan.headroom?.free.gpus).toBe(2);
    // The first job also uses most of a total that the site file limits.
    const site = await temporaryFolder();
    const settle = (over: string) =>
      writeFile(path.join(site, 'tony-site.yaml'), `quotas: {over: ${over}, users: {alice: {total: {gpus: 7}}}}\n`);
    const taken = `quotas.users.alice.total.gpus is 7 gpus, of which ${first.id} holds 6 gpus, and this job requests 3 gpus`;
    await settle('wait');
    const limited = planIn(await values([...words, '--dry-run'], 0, { TONY_CONF_DIR: site }));
    expect(limited.verdict).toEqual({ type: 'waits', reasons: [...('reasons' in plan.verdict ? plan.verdict.reasons : []), taken] });
    await settle('fail');
    const refused = planIn(await values([...words, '--dry-run'], 4, { TONY_CONF_DIR: site }));
    expect(refused.verdict).toEqual({ type: 'rejected', reasons: [taken] });
    const second = await start(words);
    expect(second.plan.verdict).toEqual(plan.verdict);
    await second.end();
    // Each node runs some of the workers, so no node has all of its vcores free for an ApplicationMaster. YARN's own diagnostics do not
    // mention this.
    const third = await start((await request({ lines: ['master: {resources: {vcores: 8}, startTimeout: 1h}'] })).words);
    try {
      const short = /: no node has 8 vcores free for ApplicationMaster: the maximum is \d vcores?\.$/;
      const waiting = await until(
        async () => {
          const { stdout } = await cluster.run(['status', third.id, '--output', 'json']);
          const reason = String(JSON.parse(stdout).message);
          return short.test(reason) && reason;
        },
        { describe: async () => (await cluster.application(third.id)).diagnostics },
      );
      expect(waiting).toMatch(/^Application is Activated, waiting for resources to be assigned for AM: /);
      const { stdout } = await cluster.run(['list', '--output', 'json']);
      expect((jsonLines(stdout) as { id: string }[]).find(({ id }) => id === third.id)).toMatchObject({
        message: waiting,
        state: 'waiting',
        yarn: { state: 'ACCEPTED' },
      });
      const late = await request({ lines: ['master: {resources: {vcores: 8}, startTimeout: 2s}'] });
      const followed = await cluster.run([...late.words, '--output', 'json']);
      expect(followed.exitCode).toBe(1);
      expect(jsonLines(followed.stdout).at(-1)).toMatchObject({
        type: 'result',
        state: 'killed',
        message: expect.stringContaining('The ApplicationMaster did not start within 2 s (master.startTimeout).'),
      });
    } finally {
      await third.end();
    }
  } finally {
    await first.end();
  }
});

test('submit rejects a job that fits no node before any upload, and reports all reasons together', async () => {
  const staging = `${HOME}/never`;
  const { words } = await request({ gpus: 9, staging, lines: ['master: {resources: {memory: 900g}}'] });
  const worker = (key: string, value: string): string[] => ['--set', `roles.worker.resources.${key}=${value}`];
  const impossible = [...words, ...worker('memory', '100g'), ...worker('yarn\\.io/fpga', '1')];
  const before = (await cluster.applications()).length;
  const { exitCode, stderr, stdout } = await cluster.run([...impossible, '--detach']);
  expect({ exitCode, stdout }).toEqual({ exitCode: 4, stdout: '' });
  expect(
    stderr
      .replace(/\n {4,}/g, ' ')
      .split('\n')
      .slice(0, 5),
  ).toEqual([
    'error: The job can never run on this cluster:',
    '  The ApplicationMaster requests 900 GiB of memory; the largest container of this cluster has 8 GiB of memory. Lower master.resources.memory.',
    '  Each task of role worker requests 100 GiB of memory; the largest container of this cluster has 8 GiB of memory. Lower roles.worker.resources.memory.',
    '  Each task of role worker requests 9 gpus; the largest container of this cluster has 4 gpus. Lower roles.worker.resources.gpus.',
    '  Each task of role worker requests 1 of yarn.io/fpga, a resource type that this cluster does not have (memory, vcores, gpus). Remove roles.worker.resources.yarn.io/fpga.',
  ]);
  expect(await cluster.hdfsTree(staging)).toEqual([]);
  expect((await cluster.applications()).length).toBe(before);
  const [plan, ...others] = await values([...impossible, '--dry-run'], 4);
  expect(others).toEqual([]);
  expect(plan).toMatchObject({ type: 'plan', verdict: { type: 'impossible', reasons: { length: 4 } } });
});
