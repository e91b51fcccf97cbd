import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { decodeCredentials, findToken, MASTER_TOKEN_KIND, type Token } from '../hadoop/rpc/credentials.ts';
import type { Endpoint } from '../hadoop/rpc/ipc.ts';
import type { AllocatedContainer, CompletedContainer } from '../hadoop/rpc/records.ts';
import type { AllocateResult } from '../hadoop/yarn/application-master-protocol.ts';
import { ApplicationMasterClient } from '../hadoop/yarn/application-master-protocol.ts';
import type { Ask } from '../hadoop/yarn/ask-ledger.ts';
import { containerEnd } from '../hadoop/yarn/container-exit.ts';
import { type LaunchContext, NodeManagerClient } from '../hadoop/yarn/container-management-protocol.ts';
import { launchCommand } from '../hadoop/yarn/launch-script.ts';
import { ResourceManager } from '../hadoop/yarn/resource-manager.ts';
import { createLogger } from '../platform/log.ts';
import { Secret } from '../platform/secret.ts';
import { FaultyProxy } from './faulty-proxy.ts';
import { temporaryFolder, USER, until, useCluster } from './harness.ts';

const cluster = useCluster();
const log = createLogger({}, { write: () => {} });
let configuration: HadoopConfiguration;
let resourceManager: ResourceManager;

beforeAll(async () => {
  configuration = await HadoopConfiguration.fromEnvironment(cluster.environment());
  resourceManager = ResourceManager.of(configuration, USER, { maxWaitMs: 60_000 });
});
afterAll(() => resourceManager.close());

/**
 * Starts an application whose ApplicationMaster container waits until a folder is deleted, and returns the application's token. The test
 * acts as the ApplicationMaster.
 */
async function waitingMaster(folder: string): Promise<{ applicationId: string; token: Token }> {
  const { applicationId } = await resourceManager.newApplication();
  const file = path.join(folder, applicationId);
  const script = `umask 077; cp "$HADOOP_TOKEN_FILE_LOCATION" ${file}.new && mv ${file}.new ${file}; while [ -e ${folder} ]; do sleep 0.2; done`;
  await resourceManager.submit({
    applicationId,
    name: 'rpc test',
    type: 'TEST',
    queue: 'default',
    tags: [],
    memoryMb: 64,
    vcores: 1,
    nodeLabel: null,
    priority: 0,
    maxAttempts: 1,
    failureWindowMs: null,
    keepContainers: false,
    tokens: [],
    keepTokens: false,
    command: launchCommand(['/bin/bash', '-c', script], { stdout: 'stdout', stderr: 'stderr' }),
    environment: {},
    resources: [],
    secrets: new Map(),
    acls: null,
  });
  const credentials = decodeCredentials(await until(() => readFile(file), { describe: 'a token file' }));
  const token = findToken(credentials, MASTER_TOKEN_KIND);
  if (token === undefined) {
    throw new Error('the container has no token for the ResourceManager');
  }
  return { applicationId, token };
}

class Master {
  readonly allocated: AllocatedContainer[] = [];
  readonly completed = new Map<string, CompletedContainer>();
  readonly results: AllocateResult[] = [];
  readonly applicationId: string;
  readonly scheduler: ApplicationMasterClient;
  readonly nodes: NodeManagerClient;

  private constructor(applicationId: string, scheduler: ApplicationMasterClient) {
    this.applicationId = applicationId;
    this.scheduler = scheduler;
    this.nodes = new NodeManagerClient({ tokens: scheduler.nodeTokens, minimumQop: 'auth', log });
  }

  static async waiting(schedulers: readonly Endpoint[] = configuration.schedulers): Promise<Master> {
    const { applicationId, token } = await waitingMaster(await temporaryFolder());
    const master = new Master(
      applicationId,
      new ApplicationMasterClient({ schedulers, token, minimumQop: 'auth', log, callTimeoutMs: 3000 }),
    );
    onTestFinished(async () => {
      master.scheduler.close();
      master.nodes.close();
      await resourceManager.kill(applicationId);
    });
    return master;
  }

  static async registered(schedulers?: readonly Endpoint[]): Promise<Master> {
    const master = await Master.waiting(schedulers);
    await master.scheduler.register(ADDRESS);
    return master;
  }

  async beat(condition: (master: Master) => boolean = () => true): Promise<void> {
    await until(
      async () => {
        const result = await this.scheduler.heartbeat(0.5);
        this.results.push(result);
        this.allocated.push(...result.allocated);
        for (const container of result.completed) {
          this.completed.set(container.id, container);
        }
        return condition(this);
      },
      {
        everyMs: 150,
        describe: () => JSON.stringify({ allocated: this.allocated.map(({ id }) => id), completed: [...this.completed] }),
      },
    );
  }
}

const ADDRESS = { host: 'localhost', rpcPort: 12_345, trackingUrl: '' };
const worker = (count: number, resources: Ask['resources'] = { 'memory-mb': 128, vcores: 1, 'yarn.io/gpu': 1 }): Ask => ({
  priority: 1,
  allocationRequestId: 1,
  resources,
  count,
  nodeLabel: null,
});
const evaluator = (count: number): Ask => ({ ...worker(count, { 'memory-mb': 256, vcores: 1 }), priority: 2, allocationRequestId: 2 });

const context = (script: string, environment: Record<string, string> = {}): LaunchContext => ({
  localResources: [],
  environment,
  command: launchCommand(['/bin/bash', '-c', script], { stdout: 'stdout', stderr: 'stderr' }),
  credentials: { tokens: [], secrets: new Map([['tony.ring', new Secret(Buffer.from('ring key'))]]) },
});

test('YARN allocates and runs containers with and without a GPU, and reports every kind of end', async () => {
  const master = await Master.waiting();
  const registration = await master.scheduler.register(ADDRESS);
  expect(registration).toMatchObject({ queue: 'root.default', previousContainers: [] });
  expect(registration.resourceTypes).toEqual(expect.arrayContaining(['memory-mb', 'vcores', 'yarn.io/gpu']));
  expect(registration.maximum['yarn.io/gpu']).toBeGreaterThan(0);
  expect(() => master.scheduler.setAsk(worker(1, { 'memory-mb': 128, vcores: 1, 'yarn.io/fpga': 1 }))).toThrow(
    'no resource type yarn.io/fpga',
  );

  master.scheduler.setAsk(worker(3));
  master.scheduler.setAsk(evaluator(1));
  await master.beat(({ allocated }) => allocated.length === 4);
  expect(master.scheduler.hasOpenAsks).toBe(false);
  const [first, second, third] = master.allocated.filter(({ priority }) => priority === 1) as [
    AllocatedContainer,
    AllocatedContainer,
    AllocatedContainer,
  ];
  expect(first.resources['yarn.io/gpu']).toBe(1);
  const [spare] = master.allocated.filter(({ priority }) => priority === 2) as [AllocatedContainer];
  expect(spare.resources).toMatchObject({ 'memory-mb': 256, 'yarn.io/gpu': 0 });

  const file = path.join(await temporaryFolder(), 'seen');
  const nasty = '{"a":{"b":"$HOME `id` \\"}}';
  const script = `printf %s "$NASTY" > ${file}.new; base64 -w0 < "$HADOOP_TOKEN_FILE_LOCATION" > ${file}.token; mv ${file}.new ${file}; exec sleep 600`;
  await Promise.all([
    master.nodes.start(first, context(script, { NASTY: nasty })),
    master.nodes.start(second, context(`touch ${file}.second; exec sleep 600`)),
    master.nodes.start(third, context('exit 3')),
  ]);
  master.scheduler.release(spare.id);
  await master.beat(({ completed }) => completed.has(third.id) && completed.has(spare.id));
  expect(await until(() => readFile(file, 'utf8'), { describe: 'the environment that the program wrote' })).toBe(nasty);
  const credentials = decodeCredentials(Buffer.from(await readFile(`${file}.token`, 'utf8'), 'base64'));
  expect(Buffer.from(credentials.secrets.get('tony.ring')?.reveal() ?? []).toString()).toBe('ring key');
  expect(credentials.tokens).toEqual([]);

  expect((await master.nodes.statuses(first.node, [first.id])).get(first.id)).toMatchObject({ state: 'RUNNING' });
  const stopped = await master.nodes.stop(first.node, [first.id, third.id]);
  expect([...stopped.values()]).toEqual([null, null]);
  // A signal that arrives before the program has started is lost.
  await until(() => existsSync(`${file}.second`), { describe: 'the second program runs' });
  await master.nodes.signal(second.node, second.id, 'kill');
  await master.beat(({ completed }) => completed.has(first.id) && completed.has(second.id));
  const ends = [first, second, third, spare].map(({ id }) => {
    const { exitStatus = 0, diagnostics = '' } = master.completed.get(id) ?? {};
    return [exitStatus, containerEnd(exitStatus, diagnostics)];
  });
  expect(ends).toEqual([
    [-105, 'stopped-by-master'],
    [137, 'exited'],
    [3, 'exited'],
    [-100, 'released'],
  ]);
  // The NodeManager no longer knows the ended containers. Stopping them again is not an error.
  expect((await master.nodes.stop(first.node, [first.id])).get(first.id)).toBeNull();

  await master.scheduler.finish({ status: 'SUCCEEDED', diagnostics: 'all is well', trackingUrl: '' });
  expect(await cluster.ended(master.applicationId)).toMatchObject({
    state: 'FINISHED',
    finalStatus: 'SUCCEEDED',
    diagnostics: 'all is well',
  });
});

test('YARN rejects each impossible request with its reason, and fulfills the others', async () => {
  const master = await Master.registered();
  master.scheduler.setAsk(evaluator(1));
  master.scheduler.setAsk({ ...worker(1, { 'memory-mb': 1_000_000, vcores: 1 }), priority: 3, allocationRequestId: 3 });
  master.scheduler.setAsk({ ...worker(1), priority: 4, allocationRequestId: 4, nodeLabel: 'no-such-label' });
  await master.beat(({ allocated }) => allocated.length === 1);
  const refused = master.results.flatMap(({ refusedAsks }) => refusedAsks);
  expect(refused.map(({ ask, message }) => [ask.priority, message])).toEqual([
    [3, expect.stringContaining("The job requested a container with memory-mb 1000000, but the cluster's largest container has 8192.")],
    [4, expect.stringMatching(/label/i)],
  ]);
  // The ResourceManager accepts the withdrawal of requests that it has rejected.
  await master.beat();
  await master.beat();
  expect(master.results.slice(-2).flatMap(({ refusedAsks }) => refusedAsks)).toEqual([]);
  expect(master.scheduler.hasOpenAsks).toBe(false);
});

test('YARN applies the latest version of a request that is withdrawn, raised or lowered', async () => {
  const master = await Master.registered();
  master.scheduler.setAsk(worker(2));
  master.scheduler.setAsk(evaluator(3));
  await master.beat();
  master.scheduler.setAsk(worker(0));
  master.scheduler.setAsk(evaluator(1));
  await master.beat(({ allocated }) => allocated.some(({ priority }) => priority === 2));
  for (let beats = 0; beats < 8; beats++) {
    await master.beat();
  }
  // The ApplicationMaster may still receive containers that YARN allocated before the change, but no containers that YARN allocates
  // afterwards.
  const seen = master.allocated.length;
  master.scheduler.setAsk(worker(1));
  await master.beat(({ allocated }) => allocated.length > seen);
  for (let beats = 0; beats < 4; beats++) {
    await master.beat();
  }
  expect(master.allocated).toHaveLength(seen + 1);
});

describe('when connections or daemons fail,', () => {
  test('lost requests and responses neither lose nor duplicate containers', async () => {
    const [scheduler] = configuration.schedulers as [Endpoint];
    const proxy = await FaultyProxy.open(scheduler);
    onTestFinished(() => proxy.close());
    const master = await Master.registered([{ host: '127.0.0.1', port: proxy.port }]);
    for (let round = 0; round < 6; round++) {
      master.scheduler.setAsk(worker(1));
      const wanted = master.allocated.length + 1;
      proxy.hold(round % 2 === 0 ? 'answer' : 'request');
      const beat = master.beat();
      // Waits for longer than a heartbeat, because the test cannot observe when the ResourceManager has processed one.
      await new Promise((resolve) => setTimeout(resolve, 300));
      proxy.cut();
      proxy.restore();
      await beat;
      await master.beat(({ allocated }) => allocated.length >= wanted);
      const last = master.allocated.at(-1);
      if (last !== undefined) {
        master.scheduler.release(last.id);
      }
      await master.beat(({ completed }) => completed.has(last?.id ?? ''));
    }
    expect(new Set(master.allocated.map(({ id }) => id)).size).toBe(6);
    expect(master.allocated).toHaveLength(6);
  });

  test('containers survive the death of the ResourceManager and the NodeManagers, and the ApplicationMaster repeats its open requests', async () => {
    const master = await Master.registered();
    master.scheduler.setAsk(worker(1));
    await master.beat(({ allocated }) => allocated.length === 1);
    const [container] = master.allocated as [AllocatedContainer];
    await master.nodes.start(container, context('exec sleep 600'));
    const programs = async () => (await cluster.containers()).filter(({ command }) => command === 'sleep 600');
    const before = await until(async () => (await programs()).length === 1 && programs(), { describe: programs });
    expect(before).toMatchObject([{ containerId: container.id, applicationId: master.applicationId }]);

    await cluster.kill('resourcemanager');
    expect(await cluster.status()).toMatchObject({ ready: false });
    master.scheduler.setAsk(worker(2));
    const beat = master.beat(({ allocated }) => allocated.length === 3);
    await cluster.start('resourcemanager');
    await beat;
    expect(master.results.filter(({ reregistered }) => reregistered)).toHaveLength(1);
    expect(master.allocated.slice(1).every(({ id }) => id.startsWith('container_e'))).toBe(true);
    expect((await master.nodes.statuses(container.node, [container.id])).get(container.id)).toMatchObject({ state: 'RUNNING' });
    const restarted = master.allocated[1] as AllocatedContainer;
    await master.nodes.start(restarted, context('exit 7'));
    await master.beat(({ completed }) => completed.get(restarted.id)?.exitStatus === 7);

    for (const nodeManager of ['nodemanager1', 'nodemanager2'] as const) {
      await cluster.kill(nodeManager);
      await cluster.start(nodeManager);
      // Restarts one NodeManager at a time, because YARN declares a node lost if it is down for too long.
      await cluster.waitUntilReady();
    }
    expect((await master.nodes.statuses(container.node, [container.id])).get(container.id)).toMatchObject({ state: 'RUNNING' });
    expect(await programs()).toEqual(before);
    expect((await master.nodes.stop(container.node, [container.id])).get(container.id)).toBeNull();
    await master.beat(({ completed }) => completed.has(container.id));
    await master.scheduler.finish({ status: 'FAILED', diagnostics: 'worker 0 exited with 7', trackingUrl: '' });
    expect(await cluster.ended(master.applicationId)).toMatchObject({ state: 'FINISHED', finalStatus: 'FAILED' });
  });

  test('a killed application rejects further heartbeats of its ApplicationMaster', async () => {
    const master = await Master.registered();
    await master.beat();
    await resourceManager.kill(master.applicationId);
    await cluster.ended(master.applicationId);
    await expect(master.scheduler.heartbeat(0)).rejects.toMatchObject({ code: 'ATTEMPT_FENCED' });
  });
});
