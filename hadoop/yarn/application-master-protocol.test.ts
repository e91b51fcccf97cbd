import { Buffer } from 'node:buffer';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createLogger, type Logger } from '../../platform/log.ts';
import { Secret } from '../../platform/secret.ts';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import { messageOfToken, type Token } from '../rpc/credentials.ts';
import { decodeMessage } from '../rpc/messages.ts';
import { containerIdOfMessage, messageOfContainerId } from '../rpc/records.ts';
import { CLOSED_ADDRESS } from '../testing/closed-port.ts';
import { type Answer, type FakeCall, FakeDaemon, type FakeDaemonOptions } from '../testing/fake-daemon.ts';
import { ApplicationMasterClient } from './application-master-protocol.ts';
import type { Ask } from './ask-ledger.ts';
import type { SchedulerOptions } from './scheduler-connection.ts';

const token = (name: string): Token => ({
  identifier: Buffer.from(name),
  password: new Secret(Buffer.from(`password of ${name}`)),
  kind: 'YARN_AM_RM_TOKEN',
  service: '',
});
const CONTAINER = 'container_e01_1795225023264_0004_01_000002';
const OTHER_CONTAINER = 'container_e01_1795225023264_0004_01_000003';
const NOT_REGISTERED = 'org.apache.hadoop.yarn.exceptions.ApplicationMasterNotRegisteredException';
const NO_ATTEMPT = 'org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException';
const INVALID_REQUEST = 'org.apache.hadoop.yarn.exceptions.InvalidApplicationMasterRequestException';
const INVALID_RESOURCE = 'org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException';
const ADDRESS = { host: 'am', rpcPort: 1, trackingUrl: 'http://am:2' };

const worker = (count: number, resources: Ask['resources'] = { 'memory-mb': 1024, vcores: 1, 'yarn.io/gpu': 1 }): Ask => ({
  priority: 1,
  allocationRequestId: 1,
  resources,
  count,
  nodeLabel: null,
});

const requestOf = (call: FakeCall | undefined) => decodeMessage('AllocateRequestProto', call?.request ?? Buffer.alloc(0));

/** A fake ResourceManager that enforces the rules for registration and response IDs. The tests supply the allocations. */
class FakeResourceManager {
  registered = false;
  responseId = 0;
  readonly registration: object;
  /** Fields of the next allocate responses, in order. Later responses are empty. */
  readonly answers: object[] = [];
  /** Called before each response. A result other than null replaces the response. `lost` applies the request and closes the connection. */
  fault: (call: FakeCall) => Answer | 'lost' = () => null;
  unregisteredAfter = 1;
  daemon: FakeDaemon | null = null;
  #last: object = {};

  constructor(
    registration: object = {
      scheduler_resource_types: ['MEMORY', 'CPU'],
      resource_types: ['memory-mb', 'vcores', 'yarn.io/gpu'].map((name) => ({ name })),
      maximumCapability: { memory: 4096, virtual_cores: 8, resource_value_map: [{ key: 'yarn.io/gpu', value: 4 }] },
      queue: 'root.default',
    },
  ) {
    this.registration = registration;
  }

  async start(options: Partial<FakeDaemonOptions> = {}): Promise<this> {
    this.daemon = await FakeDaemon.start({ answer: (call) => this.#answer(call), tokens: () => [token('attempt')], ...options });
    closing.push(() => this.daemon?.stop());
    return this;
  }

  get endpoint() {
    if (this.daemon === null) {
      throw new Error('not started');
    }
    return this.daemon.endpoint;
  }

  get calls(): readonly FakeCall[] {
    return this.daemon?.calls ?? [];
  }

  requests(): HadoopMessages['AllocateRequestProto'][] {
    return this.calls.filter(({ method }) => method === 'allocate').map(requestOf);
  }

  #answer(call: FakeCall): Answer {
    const fault = this.fault(call);
    if (fault !== null && fault !== 'lost') {
      return fault;
    }
    const answer = this.#regular(call);
    if (fault !== 'lost') {
      return answer;
    }
    call.connection.socket.destroy();
    return null;
  }

  #regular(call: FakeCall): Answer {
    switch (call.method) {
      case 'registerApplicationMaster':
        if (this.registered) {
          return { error: INVALID_REQUEST, message: 'Application Master is already registered : application_1_0004' };
        }
        this.registered = true;
        this.responseId = 0;
        return { success: 'RegisterApplicationMasterResponseProto', message: this.registration };
      case 'allocate': {
        if (!this.registered) {
          return { error: NOT_REGISTERED, message: 'AM is not registered' };
        }
        const { response_id: id } = requestOf(call);
        if (id === this.responseId) {
          this.responseId++;
          this.#last = { response_id: this.responseId, num_cluster_nodes: 2, ...this.answers.shift() };
        } else if (id !== this.responseId - 1) {
          return {
            error: INVALID_REQUEST,
            message: `Invalid responseId in AllocateRequest from application attempt: a, expect responseId to be ${this.responseId}, but get ${id}`,
          };
        }
        return { success: 'AllocateResponseProto', message: this.#last };
      }
      case 'finishApplicationMaster':
        if (!this.registered) {
          return { error: NOT_REGISTERED, message: 'unregister before registering' };
        }
        return { success: 'FinishApplicationMasterResponseProto', message: { isUnregistered: this.unregisteredAfter-- <= 0 } };
      default:
        return { error: 'org.apache.hadoop.ipc.RpcNoSuchMethodException', message: `Unknown method ${call.method}` };
    }
  }
}

const container = (id: string, gpus: number) => ({
  id: messageOfContainerId(id),
  nodeId: { host: 'node1', port: 8041 },
  node_http_address: 'node1:8042',
  resource: { memory: 1024, virtual_cores: 1, resource_value_map: gpus > 0 ? [{ key: 'yarn.io/gpu', value: gpus }] : [] },
  priority: { priority: 1 },
  container_token: messageOfToken({ ...token('container'), kind: 'ContainerToken' }),
  allocation_request_id: 1,
});

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) {
    await close();
  }
});

const lines: { level: string; msg: string }[] = [];
const log: Logger = createLogger({}, { write: (line: string) => void lines.push(JSON.parse(line)) });

function connect(schedulers: readonly { host: string; port: number }[], options: Partial<SchedulerOptions> = {}): ApplicationMasterClient {
  const client = new ApplicationMasterClient({
    schedulers,
    token: token('attempt'),
    minimumQop: 'auth',
    log,
    callTimeoutMs: 2000,
    unreachableAfterMs: 10_000,
    ...options,
  });
  closing.push(() => client.close());
  return client;
}

let rm: FakeResourceManager;
let client: ApplicationMasterClient;
beforeEach(async () => {
  lines.length = 0;
  rm = await new FakeResourceManager().start();
  client = connect([rm.endpoint]);
});

test("a registration returns the cluster's resource types, maximum and queue", async () => {
  expect(await client.register(ADDRESS)).toEqual({
    maximum: { 'memory-mb': 4096, vcores: 8, 'yarn.io/gpu': 4 },
    resourceTypes: ['memory-mb', 'vcores', 'yarn.io/gpu'],
    countsAll: true,
    queue: 'root.default',
    previousContainers: [],
  });
  expect(decodeMessage('RegisterApplicationMasterRequestProto', rm.calls[0]?.request as Buffer)).toEqual({
    host: 'am',
    rpc_port: 1,
    tracking_url: 'http://am:2',
  });
});

test('sends each ask once, and returns allocated containers with their tokens', async () => {
  await client.register(ADDRESS);
  client.setAsk(worker(2));
  rm.answers.push(
    {},
    {
      allocated_containers: [container(CONTAINER, 1)],
      nm_tokens: [{ nodeId: { host: 'node1', port: 8041 }, token: messageOfToken({ ...token('node1'), kind: 'NMToken' }) }],
      completed_container_statuses: [
        { container_id: messageOfContainerId(OTHER_CONTAINER), exit_status: 3, diagnostics: 'three' },
        { container_id: messageOfContainerId('container_e01_1795225023264_0004_01_000009'), exit_status: 0 },
      ],
      limit: { memory: 512, virtual_cores: 3 },
      preempt: { contract: { container: [{ id: messageOfContainerId(CONTAINER) }] } },
    },
  );
  expect(await client.heartbeat(0.25)).toMatchObject({ allocated: [], completed: [], nodes: 2, reregistered: false });
  const result = await client.heartbeat(0.5);
  expect(result.allocated).toMatchObject([
    { id: CONTAINER, node: 'node1:8041', nodeHttp: 'node1:8042', priority: 1, allocationRequestId: 1, resources: { 'yarn.io/gpu': 1 } },
  ]);
  expect(result.completed.map(({ exitStatus, diagnostics }) => [exitStatus, diagnostics])).toEqual([
    [3, 'three'],
    [0, ''],
  ]);
  expect(result).toMatchObject({
    headroom: { 'memory-mb': 512, vcores: 3 },
    preempting: [CONTAINER],
  });
  expect(client.nodeTokens.get('node1:8041')?.kind).toBe('NMToken');
  expect(client.hasOpenAsks).toBe(true);
  const [first, second] = rm.requests();
  expect(first).toMatchObject({
    response_id: 0,
    progress: 0.25,
    ask: [{ num_containers: 2, capability: { memory: '1024', resource_value_map: [{ key: 'yarn.io/gpu', value: '1', units: '' }] } }],
  });
  expect(second).toMatchObject({ response_id: 1, progress: 0.5, ask: [] });
});

test('fetches a lost response again, and applies every change exactly once', async () => {
  await client.register(ADDRESS);
  client.setAsk(worker(1));
  await client.heartbeat(0);
  rm.answers.push({ allocated_containers: [container(CONTAINER, 1)] });
  let losses = 2;
  rm.fault = ({ method }) => (method === 'allocate' && losses-- > 0 ? 'lost' : null);
  client.setAvoidedHosts(new Set(['bad']));
  const result = await client.heartbeat(0);
  expect(result.allocated.map(({ id }) => id)).toEqual([CONTAINER]);
  expect(client.hasOpenAsks).toBe(false);
  expect(rm.requests().map(({ response_id: id, blacklist_request: hosts }) => [id, hosts?.blacklist_additions])).toEqual([
    [0, undefined],
    [1, ['bad']],
    [1, ['bad']],
    [1, ['bad']],
  ]);
  await client.heartbeat(0);
  expect(rm.requests().at(-1)).toMatchObject({ response_id: 2, ask: [] });
});

test('repeats a call over a new connection if no response arrives before the deadline', async () => {
  client = connect([rm.endpoint], { callTimeoutMs: 100 });
  await client.register(ADDRESS);
  let hangs = 1;
  rm.fault = ({ method }) => (method === 'allocate' && hangs-- > 0 ? (new Promise(() => {}) as never) : null);
  await client.heartbeat(0);
  const allocates = rm.calls.filter(({ method }) => method === 'allocate');
  const [hung, answered] = [allocates[0], allocates.at(-1)];
  expect(requestOf(answered)).toEqual(requestOf(hung));
  expect(answered?.connection).not.toBe(hung?.connection);
});

test('after a restart of the ResourceManager, the client registers again and requests only the missing containers', async () => {
  await client.register(ADDRESS);
  client.setAsk(worker(3));
  client.setAvoidedHosts(new Set(['bad']));
  client.release(OTHER_CONTAINER);
  rm.answers.push({}, { allocated_containers: [container(CONTAINER, 1)] });
  await client.heartbeat(0);
  await client.heartbeat(0);

  const { port } = rm.endpoint;
  await rm.daemon?.stop();
  const pending = client.heartbeat(0);
  const again = await new FakeResourceManager().start({ port });
  const result = await pending;
  expect(result.reregistered).toBe(true);
  expect(again.calls.map(({ method }) => method)).toEqual(['allocate', 'registerApplicationMaster', 'allocate']);
  expect(decodeMessage('RegisterApplicationMasterRequestProto', again.calls[1]?.request as Buffer)).toMatchObject({
    tracking_url: 'http://am:2',
  });
  const request = requestOf(again.calls[2]);
  expect(request).toMatchObject({ response_id: 0, ask: [{ num_containers: 2 }], blacklist_request: { blacklist_additions: ['bad'] } });
  expect(request.release.map(containerIdOfMessage)).toEqual([OTHER_CONTAINER]);
  expect(lines.filter(({ level }) => level === 'warn').map(({ msg }) => msg)).toEqual([
    'no ResourceManager responds; trying again',
    'the ResourceManager no longer knows this attempt; registering again',
  ]);
});

test('finds the active ResourceManager among several, and the new one after a failover', async () => {
  const standby = await new FakeResourceManager().start();
  standby.fault = () => ({
    error: 'org.apache.hadoop.ipc.StandbyException',
    message: 'Operation category READ is not supported in state standby',
  });
  client = connect([CLOSED_ADDRESS, standby.endpoint, rm.endpoint]);
  await client.register(ADDRESS);
  await client.heartbeat(0);
  expect(rm.calls).toHaveLength(2);
  standby.fault = () => null;
  rm.fault = () => ({ error: 'org.apache.hadoop.ipc.StandbyException', message: 'standby now' });
  expect(await client.heartbeat(0)).toMatchObject({ reregistered: true });
  expect(standby.calls.map(({ method }) => method).slice(-3)).toEqual(['allocate', 'registerApplicationMaster', 'allocate']);
});

describe('fencing', () => {
  test('an attempt that the ResourceManager no longer knows is fenced', async () => {
    await client.register(ADDRESS);
    rm.fault = () => ({
      error: NO_ATTEMPT,
      message: "Application attempt appattempt_1_0004_000001 doesn't exist in ApplicationMasterService cache.",
    });
    await expect(client.heartbeat(0)).rejects.toMatchObject({
      code: 'ATTEMPT_FENCED',
      message: expect.stringContaining('appattempt_1_0004_000001'),
    });
  });

  test('an attempt whose token the ResourceManager no longer knows is fenced', async () => {
    client = connect([rm.endpoint], { token: token('old attempt') });
    await expect(client.register(ADDRESS)).rejects.toMatchObject({ code: 'ATTEMPT_FENCED' });
  });

  test('an attempt that the ResourceManager shuts down is fenced', async () => {
    await client.register(ADDRESS);
    rm.answers.push({ a_m_command: 'AM_SHUTDOWN' });
    await expect(client.heartbeat(0)).rejects.toMatchObject({ code: 'ATTEMPT_FENCED' });
  });
});

test('registers again when the ResourceManager requests a resync', async () => {
  await client.register(ADDRESS);
  rm.answers.push({
    a_m_command: 'AM_RESYNC',
    completed_container_statuses: [{ container_id: messageOfContainerId(CONTAINER), exit_status: 0 }],
  });
  const heartbeat = client.heartbeat(0);
  rm.fault = ({ method }) => {
    if (method === 'registerApplicationMaster') {
      rm.registered = false;
    }
    return null;
  };
  expect(await heartbeat).toMatchObject({ reregistered: true, completed: [{ id: CONTAINER }] });
});

test('opens the next connection with the renewed token', async () => {
  const renewed = token('renewed');
  let accepted = [token('attempt')];
  rm = await new FakeResourceManager().start({ tokens: () => accepted });
  client = connect([rm.endpoint]);
  await client.register(ADDRESS);
  rm.answers.push({ am_rm_token: messageOfToken(renewed) });
  await client.heartbeat(0);
  accepted = [renewed];
  await client.heartbeat(0);
  expect(rm.daemon?.connections).toHaveLength(1);
  rm.daemon?.connections[0]?.socket.destroy();
  await client.heartbeat(0);
  expect(rm.daemon?.connections).toHaveLength(2);
});

test('rejects a request for an unknown resource type before sending it', async () => {
  await client.register(ADDRESS);
  expect(() => client.setAsk(worker(1, { 'memory-mb': 1, vcores: 1, 'yarn.io/fpga': 1 }))).toThrow(
    'The cluster has no resource type yarn.io/fpga; it has memory-mb, vcores, yarn.io/gpu.',
  );
  client.setAsk(worker(1, { 'memory-mb': 1, vcores: 1, 'yarn.io/fpga': 0 }));
});

test('releases a container that lacks its GPU, and reports the ask as refused', async () => {
  rm = await new FakeResourceManager({}).start();
  client = connect([rm.endpoint]);
  await client.register(ADDRESS);
  client.setAsk(worker(1));
  rm.answers.push({}, { allocated_containers: [container(CONTAINER, 0)] });
  await client.heartbeat(0);
  const result = await client.heartbeat(0);
  expect(result.allocated).toEqual([]);
  expect(result.refusedAsks).toMatchObject([{ message: expect.stringContaining('without the requested yarn.io/gpu') }]);
  expect(client.hasOpenAsks).toBe(false);
  await client.heartbeat(0);
  expect(rm.requests().at(-1)?.release.map(containerIdOfMessage)).toEqual([CONTAINER]);
});

test('drops only the ask that the ResourceManager rejects', async () => {
  await client.register(ADDRESS);
  rm.fault = (call) =>
    call.method === 'allocate' && requestOf(call).ask.some(({ capability }) => Number(capability?.memory) > 4096)
      ? {
          error: INVALID_RESOURCE,
          message: 'Invalid resource request! Cannot allocate containers as requested resource is greater than maximum',
        }
      : null;
  client.setAsk(worker(1));
  client.setAsk({ ...worker(2, { 'memory-mb': 9999, vcores: 1 }), priority: 2 });
  client.setAsk({ ...worker(3), priority: 3 });
  client.release(CONTAINER);
  const result = await client.heartbeat(0);
  expect(result.refusedAsks).toMatchObject([
    {
      ask: { priority: 2 },
      message: expect.stringMatching(/memory-mb 9999, but the cluster's largest container has 4096/),
    },
  ]);
  const accepted = rm.requests().filter(({ ask }) => ask.every(({ capability }) => Number(capability?.memory) <= 4096));
  expect(accepted.flatMap(({ ask }) => ask.map(({ priority, num_containers: count }) => [priority?.priority, count]))).toEqual([
    [1, 1],
    [3, 3],
    [2, 0],
  ]);
  expect(accepted.flatMap(({ release }) => release.map(containerIdOfMessage))).toEqual([CONTAINER]);
  expect(await client.heartbeat(0)).toMatchObject({ refusedAsks: [] });
});

test('sends the rest of a request when a release or an avoided host is refused', async () => {
  await client.register(ADDRESS);
  rm.fault = (call) => {
    if (call.method !== 'allocate') {
      return null;
    }
    const request = requestOf(call);
    if (request.release.length > 0) {
      return { error: 'org.apache.hadoop.yarn.exceptions.InvalidContainerReleaseException', message: 'Cannot release container' };
    }
    if (request.blacklist_request?.blacklist_additions.length) {
      return { error: 'org.apache.hadoop.yarn.exceptions.InvalidResourceBlacklistRequestException', message: 'Cannot add *' };
    }
    return null;
  };
  client.release(CONTAINER);
  client.setAvoidedHosts(new Set(['*']));
  client.setAsk(worker(1));
  await client.heartbeat(0);
  expect(rm.requests().at(-1)).toMatchObject({ ask: [{ num_containers: 1 }], release: [] });
  expect(() => client.release('nonsense')).toThrow('not a container ID');
});

test('still avoids an accepted host after the ResourceManager has rejected another host', async () => {
  await client.register(ADDRESS);
  client.setAvoidedHosts(new Set(['bad']));
  await client.heartbeat(0);
  rm.fault = (call) =>
    call.method === 'allocate' && requestOf(call).blacklist_request?.blacklist_additions.includes('*')
      ? { error: 'org.apache.hadoop.yarn.exceptions.InvalidResourceBlacklistRequestException', message: 'Cannot add *' }
      : null;
  client.setAvoidedHosts(new Set(['bad', '*']));
  await client.heartbeat(0);
  await client.heartbeat(0);
  const sent = rm.requests().map(({ blacklist_request: hosts }) => [hosts?.blacklist_additions ?? [], hosts?.blacklist_removals ?? []]);
  expect(sent).toEqual([
    [['bad'], []],
    [['*'], []],
    [[], []],
    [[], []],
  ]);
});

test('adopts the response ID that the ResourceManager expects', async () => {
  await client.register(ADDRESS);
  rm.responseId = 41;
  await client.heartbeat(0);
  expect(rm.requests().map(({ response_id: id }) => id)).toEqual([0, 41]);
});

test('gives up when the ResourceManager rejects every response ID', async () => {
  await client.register(ADDRESS);
  let expected = 1000;
  rm.fault = ({ method }) =>
    method === 'allocate' ? { error: INVALID_REQUEST, message: `expect responseId to be ${expected++}, but get 0` } : null;
  await expect(client.heartbeat(0)).rejects.toMatchObject({ code: 'RPC_FAILED' });
  expect(rm.requests().length).toBeLessThan(12);
});

test('survives a restart of the ResourceManager while asks are sent one by one', async () => {
  await client.register(ADDRESS);
  let allocates = 0;
  rm.fault = ({ method }) => {
    if (method !== 'allocate' || ++allocates > 2) {
      return null;
    }
    if (allocates === 2) {
      rm.registered = false;
    }
    return allocates === 1 ? { error: INVALID_RESOURCE, message: 'for once' } : null;
  };
  client.setAsk(worker(1));
  client.setAsk({ ...worker(2), priority: 2 });
  expect(await client.heartbeat(0)).toMatchObject({ reregistered: true, refusedAsks: [] });
  expect(rm.requests().at(-1)?.ask).toHaveLength(2);
});

test('throws any other exception, and sends the content of the request again', async () => {
  await client.register(ADDRESS);
  client.setAsk(worker(2));
  rm.fault = ({ method }) => (method === 'allocate' ? { error: 'java.lang.NullPointerException', message: 'oops' } : null);
  await expect(client.heartbeat(0)).rejects.toMatchObject({
    code: 'RPC_FAILED',
    message: expect.stringMatching(/^allocate at .* failed: oops \(NullPointerException\)$/),
  });
  rm.fault = () => null;
  await client.heartbeat(0);
  expect(rm.requests().at(-1)?.ask).toMatchObject([{ num_containers: 2 }]);
});

test('sends concurrent heartbeats one after the other', async () => {
  await client.register(ADDRESS);
  await Promise.all([client.heartbeat(0), client.heartbeat(0), client.heartbeat(0)]);
  expect(rm.requests().map(({ response_id: id }) => id)).toEqual([0, 1, 2]);
});

test('continues after a lost response to the registration', async () => {
  let losses = 1;
  rm.fault = () => (losses-- > 0 ? 'lost' : null);
  expect(await client.register(ADDRESS)).toMatchObject({ resourceTypes: [], previousContainers: [] });
  client.setAsk(worker(1));
  await client.heartbeat(0);
});

test('takes over containers and tokens of the previous attempt', async () => {
  rm = await new FakeResourceManager({
    containers_from_previous_attempts: [container(CONTAINER, 1)],
    nm_tokens_from_previous_attempts: [
      { nodeId: { host: 'node1', port: 8041 }, token: messageOfToken({ ...token('node1'), kind: 'NMToken' }) },
    ],
  }).start();
  client = connect([rm.endpoint]);
  expect((await client.register(ADDRESS)).previousContainers).toMatchObject([{ id: CONTAINER, priority: 1 }]);
  expect(client.nodeTokens.has('node1:8041')).toBe(true);
});

describe('finishing', () => {
  test('repeats the report of the end until the ResourceManager confirms it', async () => {
    await client.register(ADDRESS);
    rm.unregisteredAfter = 2;
    await client.finish({ status: 'FAILED', diagnostics: 'worker 1 exited with 3', trackingUrl: 'http://history' });
    const finishes = rm.calls.filter(({ method }) => method === 'finishApplicationMaster');
    expect(finishes).toHaveLength(3);
    expect(decodeMessage('FinishApplicationMasterRequestProto', finishes[0]?.request as Buffer)).toEqual({
      diagnostics: 'worker 1 exited with 3',
      tracking_url: 'http://history',
      final_application_status: 'APP_FAILED',
    });
  });

  test('registers again after a restart of the ResourceManager', async () => {
    await client.register(ADDRESS);
    rm.registered = false;
    await client.finish({ status: 'SUCCEEDED', diagnostics: '', trackingUrl: '' });
    expect(rm.daemon?.methods()).toEqual([
      'registerApplicationMaster',
      'finishApplicationMaster',
      'registerApplicationMaster',
      'finishApplicationMaster',
      'finishApplicationMaster',
    ]);
  });

  test('fails after its deadline', async () => {
    await client.register(ADDRESS);
    await rm.daemon?.stop();
    await expect(client.finish({ status: 'SUCCEEDED', diagnostics: '', trackingUrl: '' }, 200)).rejects.toMatchObject({
      code: 'RM_UNREACHABLE',
    });
  });
});

test('gives up on an unreachable ResourceManager after the time limit', async () => {
  client = connect([CLOSED_ADDRESS], { unreachableAfterMs: 200 });
  await expect(client.register(ADDRESS)).rejects.toMatchObject({
    code: 'RM_UNREACHABLE',
    message: expect.stringMatching(/^No ResourceManager responded to registerApplicationMaster .*ECONNREFUSED/),
  });
});

test("fails with the server's error when authentication fails", async () => {
  client = connect([rm.endpoint], { token: { ...token('attempt'), password: new Secret(Buffer.from('wrong')) } });
  await expect(client.register(ADDRESS)).rejects.toMatchObject({ exceptionClassName: 'javax.security.sasl.SaslException', fatal: true });
});

test('closing rejects pending calls', async () => {
  await client.register(ADDRESS);
  await rm.daemon?.stop();
  const pending = client.heartbeat(0);
  const other = client.heartbeat(0);
  client.close();
  await expect(pending).rejects.toMatchObject({ code: 'RPC_ENDED' });
  await expect(other).rejects.toMatchObject({ code: 'RPC_ENDED' });
});
