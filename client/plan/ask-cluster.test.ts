import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { parseSite } from '../../conf/resolve/site.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { ResourceManager } from '../../hadoop/yarn/resource-manager.ts';
import { type Answers, askCluster } from './ask-cluster.ts';

const SCHEDULER = readFileSync(new URL('../../hadoop/golden/scheduler-capacity.json', import.meta.url), 'utf8');
const job = parseJob('name: a\nqueue: gpu\ncommand: sleep 1\nroles: {worker: {instances: 3, resources: {gpus: 1}}}\n', {
  file: 'job.yaml',
  folder: '/nowhere',
});
const site = parseSite('quotas: {queues: {gpu: {total: {gpus: 4}}}}', 'tony-site.yaml');
const cluster = { configuration: HadoopConfiguration.fromProperties({ 'fs.defaultFS': 'hdfs://nowhere:1' }), user: 'alice' };
const owner = { user: 'alice', groups: [], queue: 'gpu' };

type Page = (request: IncomingMessage, response: ServerResponse) => void;

const json =
  (body: string, status = 200): Page =>
  (_, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  };
const resource = (memory: number, vCores: number) => ({ memory, vCores });
const NODES = json(
  JSON.stringify({
    nodes: {
      node: [
        { id: 'n1:1', nodeHostName: 'n1', state: 'RUNNING', totalResource: resource(8192, 8), availableResource: resource(4096, 4) },
        { id: 'n2:1', nodeHostName: 'n2', state: 'UNHEALTHY', nodeLabels: [''], totalResource: resource(8192, 8) },
      ],
    },
  }),
);
const APPLICATIONS = json(
  JSON.stringify({
    apps: {
      app: [
        {
          id: 'application_1_0001',
          user: 'bob',
          queue: 'root.gpu',
          state: 'RUNNING',
          startedTime: 1,
          applicationTags: 'tony-ts,tony-roles:worker:2:m4096:v2:g2',
        },
      ],
    },
  }),
);
const REFUSED = json(JSON.stringify({ RemoteException: { exception: 'ForbiddenException', message: 'User alice may not' } }), 403);
const INFO = json(JSON.stringify({ clusterInfo: { haState: 'ACTIVE' } }));

async function answers(pages: { nodes: Page; scheduler: Page; apps: Page }): Promise<Answers> {
  const server = createServer((request, response) => {
    const name = /^\/ws\/v1\/cluster\/(\w+)/.exec(request.url ?? '')?.[1];
    const page = name === 'info' ? INFO : pages[name as keyof typeof pages];
    page(request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const resourceManager = new ResourceManager({ addresses: [address], user: 'alice' });
  onTestFinished(() => {
    resourceManager.close();
    server.closeAllConnections();
    server.close();
  });
  return askCluster(job, cluster, resourceManager).answers(owner, site, job);
}

test('returns nodes, the queue, and quota totals that the job would exceed', async () => {
  const { nodes, queue, shortages, notes } = await answers({ nodes: NODES, scheduler: json(SCHEDULER), apps: APPLICATIONS });
  expect(nodes).toEqual([
    { host: 'n1', usable: true, labels: [], total: { memory: 8192, vcores: 8 }, free: { memory: 4096, vcores: 4 } },
    { host: 'n2', usable: false, labels: [], total: { memory: 8192, vcores: 8 }, free: {} },
  ]);
  expect(queue?.path).toBe('root.gpu');
  expect(shortages).toMatchObject([{ path: 'quotas.queues.gpu.total.gpus', limit: 4, asked: 3, used: 2, holders: ['application_1_0001'] }]);
  expect(notes).toEqual([]);
});

test('reads nodes in the formats of Hadoop 3.2 and 3.0', async () => {
  const gpus = (free: number, memory: number, vCores: number) => ({
    memory,
    vCores,
    resourceInformations: {
      resourceInformation: [
        { name: 'memory-mb', value: memory },
        { name: 'vcores', value: vCores },
        { name: 'yarn.io/gpu', value: free },
      ],
    },
  });
  const none = { usedMemoryMB: 0, availMemoryMB: 0, usedVirtualCores: 0, availableVirtualCores: 0 };
  const resources = { usedMemoryMB: 6144, availMemoryMB: 2048, usedVirtualCores: 9, availableVirtualCores: -1 };
  const node = [
    {
      id: 'n1:1',
      nodeHostName: 'n1',
      state: 'RUNNING',
      ...resources,
      usedResource: gpus(3, 6144, 9),
      availableResource: gpus(1, 2048, -1),
    },
    { id: 'n2:1', nodeHostName: 'n2', state: 'RUNNING', ...resources },
    { id: 'n3:1', nodeHostName: 'n3', state: 'UNHEALTHY', ...none },
  ];
  const { nodes } = await answers({ nodes: json(JSON.stringify({ nodes: { node } })), scheduler: json(SCHEDULER), apps: APPLICATIONS });
  expect(nodes).toMatchObject([
    { host: 'n1', total: { memory: 8192, vcores: 8, gpus: 4 }, free: { memory: 2048, vcores: -1, gpus: 1 } },
    { host: 'n2', total: { memory: 8192, vcores: 8 }, free: { memory: 2048, vcores: -1 } },
    { host: 'n3', total: {}, free: { memory: 0, vcores: 0 } },
  ]);
  expect(nodes?.[2]?.total).toEqual({});
});

test('a rejected request adds a note instead of failing', async () => {
  const { nodes, queue, shortages, notes } = await answers({ nodes: REFUSED, scheduler: REFUSED, apps: REFUSED });
  expect([nodes, queue, shortages]).toEqual([null, null, null]);
  expect(notes).toEqual([
    'Cannot determine which nodes have free resources: The ResourceManager rejected the request: User alice may not.',
    'Cannot determine what is free in queue gpu: The ResourceManager rejected the request: User alice may not.',
    'Cannot determine how much of the quota totals is in use: The ResourceManager rejected the request: User alice may not.',
  ]);
});

test('malformed answers and an unlisted queue add notes', async () => {
  const { notes } = await answers({ nodes: json('{"nodes":{"node":[{"id":1}]}}'), scheduler: json('{}'), apps: json('{"apps":null}') });
  expect(notes).toEqual([
    expect.stringContaining('Cannot determine which nodes have free resources'),
    'The ResourceManager does not list the queue gpu.',
  ]);
});

test('a queue that the cluster does not have fails the submit before any upload', async () => {
  const scheduler = readFileSync(new URL('../../hadoop/golden/capacity-scheduler.json', import.meta.url), 'utf8');
  await expect(answers({ nodes: NODES, scheduler: json(scheduler), apps: APPLICATIONS })).rejects.toMatchObject({
    code: 'JOB_INVALID',
    message: 'The cluster has no queue gpu.',
    hint: expect.stringContaining('Its queues are default, a, b.'),
  });
});

test('an answer that does not arrive in time adds a note', async () => {
  const hanging = {
    nodes: () => new Promise<never>(() => {}),
    queueRoom: async () => null,
    queuesWithout: async () => null,
    nodeLabels: async () => ['a100', 'fast'],
    applications: async () => [],
  };
  const { shortages, notes } = await askCluster(job, cluster, hanging, { maxWaitMs: 1, ownQueues: new Promise(() => {}) }).answers(
    owner,
    site,
    job,
  );
  expect(shortages).toEqual([]);
  expect(notes).toEqual([
    'Cannot determine which nodes have free resources: no answer in time.',
    'Cannot determine whether alice may submit to queue gpu: no answer in time.',
    'The ResourceManager does not list the queue gpu.',
  ]);
});

test('a node label that the cluster does not have fails the submit before any upload', async () => {
  const labelled = (nodeLabel: string, known: readonly string[]) =>
    askCluster({ ...job, roles: job.roles.map((role) => ({ ...role, nodeLabel })) }, cluster, {
      nodes: async () => [],
      queueRoom: async () => null,
      queuesWithout: async () => null,
      nodeLabels: async () => [...known],
      applications: async () => [],
    }).answers(owner, site, job);
  await expect(labelled('a10', ['a100', 'fast'])).rejects.toMatchObject({
    code: 'JOB_DENIED',
    message: 'The cluster has no node label a10; did you mean a100?',
    hint: expect.stringMatching(/^Its labels are a100, fast. Change roles\.\w+\.nodeLabel\.$/),
  });
  await expect(labelled('a10', [])).rejects.toMatchObject({ hint: expect.stringContaining('The cluster has no node labels.') });
  expect((await labelled('a100', ['a100'])).notes).toEqual(['The ResourceManager does not list the queue gpu.']);
});
