import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, onTestFailed, onTestFinished, test, vi } from 'vitest';
import type { NodeMajor } from '../../client/runtime/pins.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { ROOT } from '../command.ts';
import { jsonLines, noneLeft, type TestCluster, temporaryFolder, USER, useOwnCluster } from '../harness.ts';
import { nodeOfMajor } from '../node-versions.ts';
import { smallMnist } from '../small-mnist.ts';
import { clustersOf } from './compatibility-cells.ts';

/**
 * Runs jobs on several Hadoop versions and cluster profiles. The tests have a short form (the default) and a long form (with TONY_MATRIX).
 * `npm run matrix` runs the long form on all combinations and writes docs/compatibility.md.
 */

vi.setConfig({ testTimeout: 900_000, hookTimeout: 400_000 });
const allRun = ({ tasks }: JobStatus): boolean => tasks.every(({ state }) => state === 'running');

const { clusters, isLong } = clustersOf(process.env);

/** A job that runs until it is killed. */
const SLEEPING = [
  'framework: none',
  'runtime: system',
  'command: echo asleep; sleep 1000',
  'roles: {worker: {instances: 2, resources: {memory: 256m}}}',
];

const titled = clusters.map(({ hadoop, profile, nodes }) => [hadoop, profile, nodes] as const);

describe.each(titled)('Hadoop %s, %s', (hadoop, profile, nodes) => {
  const cluster = useOwnCluster(profile, {}, hadoop);
  for (const node of nodes) {
    describe(`Node ${node ?? process.versions.node}`, () => testsOf(cluster, hadoop, profile, node));
  }
});

function testsOf(cluster: TestCluster, hadoop: string, profile: string, major: NodeMajor | null): void {
  let node: string = process.execPath;
  beforeAll(async () => {
    node = major === null ? process.execPath : await nodeOfMajor(major);
  });
  // A secure NodeManager without LinuxContainerExecutor aggregates only the logs of the user who started it (docs/development.md).
  const user = (): string => (profile.split('+').includes('kerberos') ? cluster.administrator : USER);
  const run: TestCluster['run'] = (words, options = {}) =>
    cluster.run(words, { ...options, node, env: { ...cluster.environment(user()), ...options.env } });

  async function jobFile(lines: readonly string[]): Promise<string> {
    const file = path.join(await temporaryFolder(), 'job.yaml');
    await writeFile(file, `${lines.join('\n')}\n`);
    return file;
  }

  async function submit(lines: readonly string[]): Promise<string> {
    const file = await jobFile(lines);
    const { stdout, stderr, exitCode } = await run(['submit', '--conf', file, '--detach']);
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
    onTestFailed(() => run(['kill', id]).then(() => undefined));
    return id;
  }

  async function kill(id: string, command: string, containerId?: string | null): Promise<void> {
    const all = await cluster.containers(id);
    const found = all.filter((each) => each.command.includes(command) && /^\S*node\b/.test(each.command));
    const one = found.find((each) => containerId === undefined || each.containerId === containerId);
    expect(one, JSON.stringify(all, null, 1)).toBeDefined();
    process.kill(one?.pid ?? 0, 'SIGKILL');
  }

  test('doctor reports no problem', async () => {
    const { exitCode, stdout } = await run(['doctor', '--output', 'json']);
    expect(jsonLines(stdout).filter(({ state }) => state === 'error' || state === 'skipped')).toEqual([]);
    expect(exitCode).toBe(0);
    expect(jsonLines(stdout).find(({ name }) => name === 'ResourceManager')?.message).toContain(`Hadoop ${hadoop}, `);
  });

  const title = isLong
    ? 'MNIST trains on two workers through the loss of a worker and of its ApplicationMaster; page, logs and result are complete'
    : 'MNIST trains on two workers; page, logs and result are complete';
  test(title, async () => {
    const id = await submit([
      'name: mnist',
      `source: ${path.join(ROOT, 'examples', 'mnist')}`,
      `data: {mnist: ${await smallMnist(isLong ? 25_600 : 6_400)}}`,
      'roles:',
      '  worker: {instances: 2, command: node train.ts, resources: {memory: 1.5g, gpus: 1}}',
      ...(isLong ? ['  evaluator: {instances: 1, command: node evaluate.ts, resources: {memory: 1g}}'] : []),
      'checkpoint: {everySteps: 25}',
      'heartbeat: {interval: 500ms, missed: 20}',
    ]);
    await cluster.reached(id, ({ step, checkpointStep }) => step > 0 && (!isLong || checkpointStep > 0));
    const page = await cluster.request((await cluster.application(id)).trackingUrl);
    expect(page.status).toBe(200);
    expect(await page.text()).toContain('<title>');
    if (isLong) {
      const { tasks } = await cluster.jobStatus(id);
      await kill(id, 'train.ts', tasks.find(({ role, index }) => role === 'worker' && index === 1)?.containerId);
      await cluster.reached(id, ({ generations, step, checkpointStep }) => generations === 2 && step > checkpointStep);
      await kill(id, 'application-master.mjs');
      await cluster.reached(id, ({ masterAttempt, state }) => masterAttempt === 2 && state === 'running');
    }
    expect(await cluster.ended(id)).toMatchObject({ state: 'FINISHED', finalStatus: 'SUCCEEDED' });
    await noneLeft(cluster, id);
    const final = JSON.parse((await cluster.hdfsRead(`/user/${user()}/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
    expect(final).toMatchObject(isLong ? { generations: 2, masterAttempt: 2 } : { generations: 1, masterAttempt: 1 });
    const logs = await run(['logs', id, 'worker:0']);
    expect(logs.stdout, logs.stderr).toMatch(/^test accuracy: (8|9)\d\.\d\d %$/m);
    const listed = jsonLines((await run(['list', '--all', '--output', 'json'])).stdout);
    expect(listed.find((job) => job.id === id)).toMatchObject({ name: 'mnist', state: 'succeeded' });
  });

  test.runIf(profile === 'acls')('only users in the ACLs of a job can view or kill it, and a queue accepts only its users', async () => {
    const id = await submit(['name: sleeping', 'acls: {view: {users: [carol]}, modify: {users: [dave]}}', ...SLEEPING]);
    await cluster.reached(id, allRun);
    const as = (other: string, words: readonly string[]) => run(words, { env: cluster.environment(other) });
    const page = async (other: string) => (await fetch(`${cluster.resourceManager}/proxy/${id}/tony/api/v1/job?user.name=${other}`)).status;
    expect([await page('bob'), await page('dave'), await page('carol')]).toEqual([403, 403, 200]);
    expect(await as('bob', ['logs', id, 'worker:0'])).toMatchObject({ exitCode: 4, stdout: '' });
    expect(await as('carol', ['logs', id, 'worker:0'])).toMatchObject({ exitCode: 0, stdout: 'asleep\n' });
    for (const other of ['bob', 'carol']) {
      const refused = await as(other, ['kill', id]);
      expect(refused).toMatchObject({ exitCode: 4, stderr: expect.stringContaining(`a job of ${USER}, and ${other} is not allowed`) });
    }
    expect(await as('dave', ['kill', id])).toMatchObject({ exitCode: 0 });
    expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'KILLED' });
    await noneLeft(cluster, id);

    const before = await cluster.hdfsTree(`/user/${USER}/.tony-ts`);
    const file = await jobFile(['name: barred', 'queue: gpu', ...SLEEPING]);
    const reason = /^error: The ResourceManager rejected the request: User alice does not have permission to submit \S+ to queue gpu/;
    expect(await run(['submit', '--conf', file])).toMatchObject({ exitCode: 4, stderr: expect.stringMatching(reason) });
    expect(await cluster.hdfsTree(`/user/${USER}/.tony-ts`)).toEqual(before);
    const planned = await run(['submit', '--conf', file, '--dry-run']);
    // Newer versions report the path of a queue, older versions its name.
    const verdict = /rejected because the ACLs of queue (root\.)?gpu do not allow alice to submit/;
    expect({ ...planned, stdout: planned.stdout.replace(/\s+/g, ' ') }).toMatchObject({
      exitCode: 4,
      stdout: expect.stringMatching(verdict),
    });
    const found = jsonLines((await run(['doctor', '--queue', 'gpu', '--output', 'json'])).stdout);
    expect(found.find(({ name }) => name === 'queue access')).toMatchObject({ state: 'error', message: 'alice may not submit to gpu' });
  });

  test.runIf(isLong)('kill ends a job, and submit rejects a job over its quota before any upload', async () => {
    const id = await submit(['name: sleeping', ...SLEEPING]);
    await cluster.reached(id, allRun);
    expect(await run(['kill', id])).toMatchObject({ exitCode: 0 });
    expect(await cluster.ended(id)).toMatchObject({ finalStatus: 'KILLED' });
    await noneLeft(cluster, id);

    onTestFinished(() => cluster.hdfsRemove('/apps/tony-ts'));
    await cluster.hdfsMakeFolder('/apps/tony-ts', '755');
    await cluster.hdfsWrite('/apps/tony-ts/site.yaml', Buffer.from('quotas:\n  roles: {worker: {instances: 1}}\n'));
    const file = await jobFile(['name: greedy', ...SLEEPING]);
    await writeFile(path.join(path.dirname(file), 'program'), await readFile(import.meta.filename));
    const before = await cluster.hdfsTree(`/user/${user()}/.tony-ts`);
    const refused = await run(['submit', '--conf', file]);
    expect({ exitCode: refused.exitCode, stderr: refused.stderr }).toMatchObject({
      exitCode: 4,
      stderr: expect.stringContaining('worker'),
    });
    expect(await cluster.hdfsTree(`/user/${user()}/.tony-ts`)).toEqual(before);
  });
}
