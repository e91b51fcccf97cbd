import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { CapacityQueue } from '../hadoop/yarn/capacity-queues.ts';
import { ResourceManager } from '../hadoop/yarn/resource-manager.ts';
import { jsonLines, until, useCluster } from './harness.ts';
import { refreshQueues } from './refresh-queues.ts';

/**
 * A ResourceManager loads the configuration that `quotas emit` writes, and enforces the limits on users and jobs without the
 * ApplicationMaster's help.
 */

const cluster = useCluster();
const file = path.join(cluster.state, 'conf', 'resourcemanager', 'capacity-scheduler.xml');
let folder: string;
let original: string;
let resourceManager: ResourceManager;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-emit-test-'));
  original = path.join(folder, 'original.xml');
  await copyFile(file, original);
  resourceManager = new ResourceManager({ addresses: [cluster.resourceManager], user: cluster.administrator });
});
afterEach(async () => {
  await copyFile(original, file);
  await refreshQueues(cluster);
});
afterAll(async () => {
  resourceManager.close();
  await rm(folder, { recursive: true, force: true });
});

/** Some settings take effect only when the ResourceManager starts. */
async function restart(): Promise<void> {
  await cluster.stop('resourcemanager');
  await cluster.start('resourcemanager');
  await cluster.waitUntilReady();
}

/** Writes a site file for the admin's command only. The cluster has no site file. */
async function emit(quotas: string, ...words: string[]): Promise<{ stderr: string }> {
  await writeFile(path.join(folder, 'tony-site.yaml'), `quotas:\n${quotas.replace(/^/gm, '  ')}\n`);
  const emitted = path.join(folder, 'capacity-scheduler.xml');
  const { exitCode, stdout, stderr } = await cluster.run(['quotas', 'emit', 'capacity-scheduler', '--to', emitted, '--force', ...words], {
    env: { HADOOP_USER_NAME: cluster.administrator, TONY_CONF_DIR: folder },
  });
  expect({ exitCode, stdout, stderr }).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`To apply ${emitted}, replace`) });
  await copyFile(emitted, file);
  return { stderr };
}

async function queue(name: string): Promise<CapacityQueue> {
  const root = await resourceManager.capacityQueues();
  const found = root?.children.find((child) => child.name === name);
  if (found === undefined) {
    throw new Error(`no queue ${name}`);
  }
  return found;
}

/** Submits an application without tony-ts, and returns the ResourceManager's response. */
async function submitOther(user: string, to: string): Promise<{ status: number; text: string; id: string }> {
  const url = `${cluster.resourceManager}/ws/v1/cluster/apps`;
  const made = (await (await fetch(`${url}/new-application?user.name=${user}`, { method: 'POST' })).json()) as { 'application-id': string };
  const id = made['application-id'];
  const answer = await fetch(`${url}?user.name=${user}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({
      'application-id': id,
      'application-name': 'own master',
      'application-type': 'ANY',
      queue: to,
      resource: { memory: 128, vCores: 1 },
      'am-container-spec': { commands: { command: 'sleep 1' } },
      'max-app-attempts': 1,
    }),
  });
  return { status: answer.status, text: await answer.text(), id };
}

async function submit(user: string, to: string, workers: number): Promise<string> {
  const conf = path.join(folder, `${user}-${to}.yaml`);
  await writeFile(
    conf,
    `name: many\nqueue: ${to}\nframework: none\nruntime: system\ncommand: sleep 300\nroles: {worker: {instances: ${workers}, resources: {memory: 256m, gpus: 1}}}\n`,
  );
  const { stdout, stderr } = await cluster.run(['submit', '--conf', conf, '--detach', '--output', 'json'], {
    env: { HADOOP_USER_NAME: user },
  });
  const submitted = jsonLines(stdout).find(({ type }) => type === 'submitted');
  if (submitted === undefined) {
    throw new Error(stderr);
  }
  return String(submitted.applicationId);
}

async function gpusOf(id: string): Promise<number> {
  return (await resourceManager.application(id)).used['yarn.io/gpu'] ?? 0;
}

describe('the emitted total of a queue', () => {
  test.each<[string, string[], boolean]>([
    ['in absolute amounts, based on the ResourceManager’s own data', ['--queue-mode', 'absolute'], true],
    ['in mixed mode, based on its existing file', ['--base', 'ORIGINAL', '--queue-mode', 'mixed'], false],
  ])('limits the queue without any check by an ApplicationMaster: %s', { timeout: 300_000 }, async (_, words, inAmounts) => {
    const { stderr } = await emit('queues: {gpu: {total: {gpus: 3}}}', ...words.map((word) => (word === 'ORIGINAL' ? original : word)));
    expect(stderr.includes('does not limit memory, vcores')).toBe(inAmounts);
    await refreshQueues(cluster);
    const [own] = (await queue('gpu')).partitions;
    expect(own?.maximum).toEqual({ 'memory-mb': 16_384, vcores: 16, 'yarn.io/gpu': 3 });
    const wide = await submit('alice', 'gpu', 4);
    await until(async () => (await gpusOf(wide)) === 3, { describe: `${wide} has 3 GPUs`, timeoutMs: 90_000 });
    const other = await submit('bob', 'default', 2);
    await until(async () => (await gpusOf(other)) === 2, { describe: `${other} has 2 GPUs`, timeoutMs: 90_000 });
    await delay(2_000);
    expect(await gpusOf(wide)).toBe(3);
    await Promise.all([resourceManager.kill(wide), resourceManager.kill(other)]);
    // A ResourceManager that stops before it has stored the final states recovers the applications after its restart.
    await Promise.all([cluster.ended(wide), cluster.ended(other)]);
  });
});

test('emitting a configuration from its own output returns the same configuration', async () => {
  await emit('queues: {gpu: {total: {gpus: 3, memory: 4g}, timeout: 1h}}');
  const first = await readFile(file, 'utf8');
  await refreshQueues(cluster);
  await emit('queues: {gpu: {total: {gpus: 3, memory: 4g}, timeout: 1h}}', '--base', file);
  const values = (text: string): string[] =>
    [...text.matchAll(/<name>(.*)<\/name>\s*<value>(.*)<\/value>/g)].map(([, name, value]) => `${name}=${value}`);
  expect(values(await readFile(file, 'utf8')).sort()).toEqual(values(first).sort());
});

test('the command does not overwrite an existing file', async () => {
  const { exitCode, stderr } = await cluster.run(['quotas', 'emit', 'capacity-scheduler', '--to', original], {
    env: { HADOOP_USER_NAME: cluster.administrator },
  });
  expect(exitCode).toBe(2);
  expect(stderr).toContain(`${original} already exists`);
});

describe('emitted access lists', () => {
  const QUOTAS = `
users: {alice: {queues: [gpu]}, '*': {queues: [default]}}
groups: {students: {queues: [gpu]}}
queues: {gpu: {timeout: 2h, task: {memory: 2g, gpus: 1}}}`;

  afterAll(restart);

  test('make the ResourceManager reject applications from users without access to the queue', async () => {
    const { stderr } = await emit(QUOTAS, '--base', original);
    expect(stderr.replace(/\s+/g, ' ')).toContain(
      'The maximum container size decreases in root.gpu. The ResourceManager rejects this change when queues are refreshed',
    );
    await expect(refreshQueues(cluster)).rejects.toThrow(/maximum allocation size can not be decreased/);
    await restart();
    expect(await queue('gpu')).toMatchObject({
      submitters: 'alice students',
      maximumLifetime: 7200,
      maximumAllocation: { 'memory-mb': 2048, vcores: 8, 'yarn.io/gpu': 1 },
      // No quota sets a total for the queue, so the queue's capacity remains a percentage.
      mode: 'percentage',
    });
    // bob is a student; dave belongs to no group.
    const accepted = await Promise.all(['alice', 'bob'].map((user) => submitOther(user, 'gpu')));
    expect(accepted).toMatchObject([{ status: 202 }, { status: 202 }]);
    const refused = await submitOther('dave', 'gpu');
    expect(refused).toMatchObject({ status: 400, text: expect.stringMatching(/AccessControlException: User dave .*to queue gpu/) });
    const elsewhere = await submitOther('dave', 'default');
    expect(elsewhere).toMatchObject({ status: 202 });
    // A ResourceManager that stops before the applications end recovers them after its restart. Their queue then no longer exists.
    await Promise.all([...accepted, elsewhere].map(({ id }) => cluster.ended(id)));
  });
});
