import { Buffer } from 'node:buffer';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createLogger } from '../../platform/log.ts';
import { Secret } from '../../platform/secret.ts';
import { decodeCredentials, messageOfToken, type Token } from '../rpc/credentials.ts';
import { decodeMessage } from '../rpc/messages.ts';
import { type AllocatedContainer, containerIdOfMessage, messageOfContainerId } from '../rpc/records.ts';
import { CLOSED_ADDRESS } from '../testing/closed-port.ts';
import { type Answer, type FakeCall, FakeDaemon } from '../testing/fake-daemon.ts';
import type { NodeManagerOptions } from './container-management-protocol.ts';
import { type LaunchContext, NodeManagerClient } from './container-management-protocol.ts';
import type { LocalResource } from './local-resource.ts';

const nodeToken: Token = { identifier: Buffer.from('node'), password: new Secret(Buffer.from('secret')), kind: 'NMToken', service: '' };
const log = createLogger({}, { write: () => {} });
const idOf = (sequence: number) => `container_1795225023264_0004_01_${String(sequence).padStart(6, '0')}`;

const resource: LocalResource = {
  name: 'tony',
  uri: 'hdfs://nn:8020/user/alice/with space/tony.tgz',
  type: 'archive',
  visibility: 'private',
  size: 7,
  timestamp: 1_795_225_023_264,
};
const context: LaunchContext = {
  localResources: [resource],
  environment: { ROLE: 'worker', JSON: '{"a":"$HOME"}' },
  command: 'exec node x.js 1><LOG_DIR>/stdout',
  credentials: { tokens: [], secrets: new Map([['tony.ring', new Secret(Buffer.from('ring'))]]) },
  acls: { view: 'alice', modify: ' admins' },
};

const startRequest = (call: FakeCall | undefined) => decodeMessage('StartContainersRequestProto', call?.request ?? Buffer.alloc(0));
const startedIds = (call: FakeCall | undefined) =>
  startRequest(call).start_container_request.map(({ container_token }) => Buffer.from(container_token?.identifier ?? []).toString());

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) {
    await close();
  }
});

let answer: (call: FakeCall) => Answer;
let nm: FakeDaemon;
let node: string;
let client: NodeManagerClient;

async function startNode(port?: number): Promise<FakeDaemon> {
  const daemon = await FakeDaemon.start({
    answer: (call) => answer(call),
    tokens: () => [nodeToken],
    ...(port === undefined ? {} : { port }),
  });
  closing.push(() => daemon.stop());
  return daemon;
}

function connect(options: Partial<NodeManagerOptions> = {}): NodeManagerClient {
  const made = new NodeManagerClient({
    tokens: new Map([[node, nodeToken]]),
    minimumQop: 'auth',
    log,
    callTimeoutMs: 2000,
    maxWaitMs: 3000,
    ...options,
  });
  closing.push(() => made.close());
  return made;
}

const container = (sequence: number): AllocatedContainer => ({
  id: idOf(sequence),
  node,
  nodeHttp: '',
  resources: {},
  priority: 1,
  allocationRequestId: 1,
  token: { ...nodeToken, identifier: Buffer.from(idOf(sequence)), kind: 'ContainerToken' },
});

const failed = (sequence: number, message: string, className = 'org.apache.hadoop.yarn.exceptions.YarnException') => ({
  container_id: messageOfContainerId(idOf(sequence)),
  exception: { message, class_name: className },
});

beforeEach(async () => {
  answer = (call) => ({ success: `${call.method[0]?.toUpperCase()}${call.method.slice(1)}ResponseProto`, message: {} }) as Answer;
  nm = await startNode();
  node = `127.0.0.1:${nm.endpoint.port}`;
  client = connect();
});

test('starts a container with everything that its launch needs', async () => {
  await client.start(container(2), context);
  const [request] = startRequest(nm.calls[0]).start_container_request;
  expect(nm.calls[0]).toMatchObject({ method: 'startContainers', protocol: 'org.apache.hadoop.yarn.api.ContainerManagementProtocolPB' });
  expect(request?.container_token).toEqual({
    ...messageOfToken(container(2).token),
    identifier: Buffer.from(idOf(2)),
    password: Buffer.from('secret'),
  });
  expect(request?.container_launch_context).toMatchObject({
    localResources: [
      {
        key: 'tony',
        value: {
          resource: { scheme: 'hdfs', host: 'nn', port: 8020, file: '/user/alice/with space/tony.tgz' },
          size: '7',
          timestamp: '1795225023264',
          type: 'ARCHIVE',
          visibility: 'PRIVATE',
        },
      },
    ],
    environment: [
      { key: 'ROLE', value: 'worker' },
      { key: 'JSON', value: '{\\"a\\":\\"\\$HOME\\"}' },
    ],
    command: ['exec node x.js 1><LOG_DIR>/stdout'],
    application_ACLs: [
      { accessType: 'APPACCESS_VIEW_APP', acl: 'alice' },
      { accessType: 'APPACCESS_MODIFY_APP', acl: ' admins' },
    ],
  });
  const credentials = decodeCredentials(request?.container_launch_context?.tokens ?? new Uint8Array());
  expect(Buffer.from(credentials.secrets.get('tony.ring')?.reveal() ?? []).toString()).toBe('ring');
});

test.each([
  ['file:///tmp/x', { scheme: 'file', port: -1, file: '/tmp/x' }],
  ['hdfs://nameservice/x', { scheme: 'hdfs', host: 'nameservice', port: -1, file: '/x' }],
  ['hdfs://[::1]:8020/x', { scheme: 'hdfs', host: '[::1]', port: 8020, file: '/x' }],
])('encodes the resource %s for YARN', async (uri, expected) => {
  await client.start(container(2), { ...context, localResources: [{ ...resource, uri }] });
  expect(startRequest(nm.calls[0]).start_container_request[0]?.container_launch_context?.localResources).toMatchObject([
    { value: { resource: expected } },
  ]);
});

test('combines concurrent starts into one call, with a separate outcome for each', async () => {
  answer = () => ({
    success: 'StartContainersResponseProto',
    message: { failed_requests: [failed(3, 'This token is expired. current time is 1')] },
  });
  const starts = await Promise.allSettled([2, 3, 4].map((sequence) => client.start(container(sequence), context)));
  expect(nm.calls.map(startedIds)).toEqual([[idOf(2), idOf(3), idOf(4)]]);
  expect(starts.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(starts[1]).toMatchObject({
    reason: { message: expect.stringMatching(/startContainers of container_.*_000003 at .* failed: This token is expired/) },
  });
});

test('splits many starts into several calls', async () => {
  await Promise.all(Array.from({ length: 70 }, (_, index) => client.start(container(index + 2), context)));
  expect(nm.calls.map((call) => startedIds(call).length)).toEqual([32, 32, 6]);
  expect(nm.connections).toHaveLength(1);
});

test('starts the other containers when one is refused', async () => {
  answer = (call) =>
    startedIds(call).includes(idOf(3))
      ? { error: 'org.apache.hadoop.security.token.SecretManager$InvalidToken', message: 'Invalid container token' }
      : { success: 'StartContainersResponseProto', message: {} };
  const starts = await Promise.allSettled([2, 3].map((sequence) => client.start(container(sequence), context)));
  expect(starts.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
});

test('repeats a start whose response was lost, and accepts that the container is already running', async () => {
  let first = true;
  answer = (call) => {
    if (!first) {
      return {
        success: 'StartContainersResponseProto',
        message: { failed_requests: [failed(2, 'Attempt to relaunch the same container with id x.')] },
      };
    }
    first = false;
    call.connection.socket.destroy();
    return null;
  };
  await client.start(container(2), context);
  await expect(client.start(container(2), context)).rejects.toMatchObject({
    message: expect.stringContaining('relaunch the same container'),
  });
});

test('waits for a NodeManager that restarts', async () => {
  await client.start(container(2), context);
  await nm.stop();
  let notReady = 1;
  const regular = answer;
  answer = (call) =>
    notReady-- > 0 ? { error: 'org.apache.hadoop.yarn.exceptions.NMNotYetReadyException', message: 'not yet' } : regular(call);
  const start = client.start(container(3), context);
  const again = await startNode(nm.endpoint.port);
  await start;
  expect(again.calls).toHaveLength(2);
});

test('fails with the address of a NodeManager that stays unreachable', async () => {
  node = `${CLOSED_ADDRESS.host}:${CLOSED_ADDRESS.port}`;
  client = connect({ maxWaitMs: 100 });
  await expect(client.start(container(2), context)).rejects.toMatchObject({
    code: 'RPC_UNREACHABLE',
    message: expect.stringMatching(
      /The NodeManager did not respond to startContainers\. The last attempt failed: 127\.0\.0\.1:\d+: .*ECONNREFUSED/,
    ),
  });
});

test('rejects a start on a node without a token', async () => {
  await expect(client.start({ ...container(2), node: 'other:1' }, context)).rejects.toMatchObject({ code: 'CREDENTIALS_INVALID' });
});

test('counts a container that has already ended as stopped', async () => {
  answer = () => ({
    success: 'StopContainersResponseProto',
    message: {
      failed_requests: [
        failed(3, 'Container container_3 is not handled by this NodeManager'),
        failed(4, 'No'),
        failed(5, 'was recently stopped on node manager.'),
      ],
    },
  });
  const stopped = await client.stop(node, [2, 3, 4, 5].map(idOf));
  expect([...stopped].map(([id, error]) => [id, error === null])).toEqual([
    [idOf(2), true],
    [idOf(3), true],
    [idOf(4), false],
    [idOf(5), true],
  ]);
});

test('queries statuses and sends signals', async () => {
  answer = (call) =>
    call.method === 'signalToContainer'
      ? { success: 'SignalContainerResponseProto', message: {} }
      : {
          success: 'GetContainerStatusesResponseProto',
          message: {
            status: [
              { container_id: messageOfContainerId(idOf(2)), state: 'C_RUNNING' },
              { container_id: messageOfContainerId(idOf(3)), state: 'C_COMPLETE', exit_status: 143, diagnostics: 'terminated' },
            ],
            failed_requests: [failed(4, 'was recently stopped')],
          },
        };
  const statuses = await client.statuses(node, [2, 3, 4].map(idOf));
  expect(statuses.get(idOf(2))).toMatchObject({ state: 'RUNNING' });
  expect(statuses.get(idOf(3))).toEqual({ state: 'COMPLETE', exitStatus: 143, diagnostics: 'terminated' });
  expect(statuses.get(idOf(4))).toBeInstanceOf(Error);
  await client.signal(node, idOf(2), 'kill');
  const signal = decodeMessage('SignalContainerRequestProto', nm.calls.at(-1)?.request as Buffer);
  expect([containerIdOfMessage(signal.container_id), signal.command]).toEqual([idOf(2), 'FORCEFUL_SHUTDOWN']);
});

test('closes an idle connection, and opens a new one when needed', async () => {
  client = connect({ idleCloseMs: 20 });
  await client.statuses(node, [idOf(2)]);
  const [connection] = nm.connections;
  await new Promise<void>((resolve) => (connection?.socket.destroyed ? resolve() : connection?.socket.once('close', () => resolve())));
  await client.statuses(node, [idOf(2)]);
  expect(nm.connections).toHaveLength(2);
});

test('closing rejects pending calls', async () => {
  answer = () => null;
  const pending = client.statuses(node, [idOf(2)]);
  const starting = client.start(container(3), context);
  client.close();
  await expect(pending).rejects.toMatchObject({ code: 'RPC_ENDED' });
  await expect(starting).rejects.toMatchObject({ code: 'RPC_ENDED' });
});
