import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ResourceManager } from '../hadoop/yarn/resource-manager.ts';
import type { Properties } from './cluster/configuration.mjs';
import { jsonLines, until, useCluster } from './harness.ts';

/**
 * A ResourceManager loads the example of docs/capacity-scheduler.md, and enforces its limits on users and applications without the
 * ApplicationMaster's help.
 */

const cluster = useCluster();
let folder: string;
let resourceManager: ResourceManager;

/** The properties of the example. */
const page = await readFile(path.join(import.meta.dirname, '..', 'docs', 'capacity-scheduler.md'), 'utf8');
const [, example = ''] = /```xml\n(.*?)```/s.exec(page) ?? [];
const PROPERTIES = Object.fromEntries(
  [...example.matchAll(/<name>(.*?)<\/name>\s*<value>(.*?)<\/value>/g)].map(([, name = '', value = '']) => [name, value]),
);

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-scheduler-test-'));
  resourceManager = new ResourceManager({ addresses: [cluster.resourceManager], user: cluster.administrator });
  await setScheduler(PROPERTIES);
});
afterAll(async () => {
  await setScheduler({});
  resourceManager.close();
  await rm(folder, { recursive: true, force: true });
});

async function setScheduler(scheduler: Properties): Promise<void> {
  await cluster.configure({ scheduler });
  await cluster.stop('resourcemanager');
  await cluster.start('resourcemanager');
  await cluster.waitUntilReady();
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
  return String(submitted.id);
}

async function gpusOf(id: string): Promise<number> {
  return (await resourceManager.application(id)).used['yarn.io/gpu'] ?? 0;
}

test('the ResourceManager reports the limits of the example', async () => {
  const gpuQueue = async () => {
    const answer = await fetch(`${cluster.resourceManager}/ws/v1/cluster/scheduler?user.name=${cluster.administrator}`);
    const { scheduler } = (await answer.json()) as { scheduler: { schedulerInfo: { queues: { queue: { queueName: string }[] } } } };
    return scheduler.schedulerInfo.queues.queue.find(({ queueName }) => queueName === 'gpu');
  };
  const amounts = (memory: number, vcores: number, gpus: number) => ({
    resourceInformations: {
      resourceInformation: expect.arrayContaining([
        expect.objectContaining({ name: 'memory-mb', value: memory }),
        expect.objectContaining({ name: 'vcores', value: vcores }),
        expect.objectContaining({ name: 'yarn.io/gpu', value: gpus }),
      ]),
    },
  });
  // The effective limits follow the NodeManagers, which have just registered again.
  await expect.poll(gpuQueue).toMatchObject({
    capacities: { queueCapacitiesByPartition: [{ effectiveMaxResource: amounts(16_384, 16, 3) }] },
    queueAcls: { queueAcl: expect.arrayContaining([{ accessType: 'SUBMIT_APP', accessControlList: 'alice students' }]) },
    maxApplicationLifetime: 7200,
    maximumAllocation: amounts(2048, 8, 1),
  });
});

test("a queue's jobs get no more GPUs than its total, whichever ApplicationMaster requests them", async () => {
  const full = await submit('alice', 'gpu', 3);
  await until(async () => (await gpusOf(full)) === 3, { describe: `${full} has 3 GPUs` });
  // The queue has memory and vcores left, so this job's ApplicationMaster starts, and its worker waits for a GPU.
  const waiting = await submit('alice', 'gpu', 1);
  await until(async () => (await resourceManager.application(waiting)).state === 'RUNNING', {
    describe: `${waiting} runs`,
  });
  const other = await submit('bob', 'default', 2);
  await until(async () => (await gpusOf(other)) === 2, { describe: `${other} has 2 GPUs` });
  // YARN has allocated the GPUs of a later request of another queue, but none to the waiting job.
  expect(await Promise.all([full, waiting].map(gpusOf))).toEqual([3, 0]);
  const ids = [full, waiting, other];
  await Promise.all(ids.map((id) => resourceManager.kill(id)));
  // A ResourceManager that stops before it has stored the final states recovers the applications after its restart.
  await Promise.all(ids.map((id) => cluster.ended(id)));
});

test('the ResourceManager rejects applications from users without access to the queue', async () => {
  // bob is a student; dave belongs to no group.
  const accepted = await Promise.all(['alice', 'bob'].map((user) => submitOther(user, 'gpu')));
  expect(accepted).toMatchObject([{ status: 202 }, { status: 202 }]);
  const refused = await submitOther('dave', 'gpu');
  expect(refused).toMatchObject({ status: 400, text: expect.stringMatching(/AccessControlException: User dave .*to queue gpu/) });
  const elsewhere = await submitOther('dave', 'default');
  expect(elsewhere).toMatchObject({ status: 202 });
  await Promise.all([...accepted, elsewhere].map(({ id }) => cluster.ended(id)));
});
