import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { SimpleLogin } from '../security/login.ts';
import { CLOSED_URL } from '../testing/closed-port.ts';
import { listening } from '../testing/http-server.ts';
import { ResourceManager } from './resource-manager.ts';

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void;

let servers: Server[];
beforeEach(() => {
  servers = [];
});
afterEach(() => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

async function serve(handler: Handler): Promise<string> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) {
      chunks.push(chunk as Buffer);
    }
    handler(request, response, Buffer.concat(chunks).toString());
  });
  servers.push(server);
  return listening(server);
}

const json = (response: ServerResponse, value: unknown, status = 200): void =>
  void response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
const manager = (addresses: string[], options: { maxWaitMs?: number; timeoutMs?: number; user?: string | null } = {}): ResourceManager =>
  new ResourceManager({ user: 'alice', maxWaitMs: 3_000, ...options, addresses });
const ID = 'application_1795236426747_0001';
const app = { id: ID, user: 'alice', state: 'RUNNING', startedTime: 1 };

test('a login signs in only to the NodeManagers of active nodes', async () => {
  const nodes = (state: string, port: number) => ({
    node: [{ id: `n:${port - 1}`, nodeHostName: 'n', nodeHTTPAddress: `n:${port}`, state }],
  });
  const attempts = { appAttempt: [{ id: 1, appAttemptId: 'a', containerId: 'c', nodeId: 'n:3', nodeHttpAddress: 'n:4' }] };
  const address = await serve(({ url = '' }, response) =>
    json(
      response,
      url.includes('appattempts') ? { appAttempts: attempts } : { nodes: url.includes('LOST') ? nodes('LOST', 8) : nodes('RUNNING', 6) },
    ),
  );
  const admitted: string[] = [];
  const login = Object.assign(new SimpleLogin('alice'), { admit: (servers: readonly string[]) => void admitted.push(...servers) });
  const resourceManager = new ResourceManager({ addresses: [address], user: 'alice', login });
  onTestFinished(() => resourceManager.close());
  // The NodeManager that ran an attempt may have stopped since.
  expect(await resourceManager.attempts(ID)).toMatchObject([{ node: 'n:3', nodeHttp: 'n:4' }]);
  expect(await resourceManager.nodes(['LOST'])).toHaveLength(1);
  expect(admitted).toEqual([]);
  await resourceManager.nodes();
  expect(admitted).toEqual(['http://n:6']);
});

describe('finding the active ResourceManager', () => {
  test('skips ResourceManagers that are unreachable, standby or starting', async () => {
    const active = await serve((_, response) => json(response, { app }));
    const redirecting = await serve(
      (_, response) => void response.writeHead(307, { Location: 'http://127.0.0.1:1/' }).end('This is standby RM. The redirect url is: x'),
    );
    const refreshing = await serve(
      (_, response) => void response.writeHead(200, { Refresh: '3; url=/' }).end('There is no active RM right now.'),
    );
    const starting = await serve((_, response) => void response.writeHead(503).end());
    const resourceManager = manager([CLOSED_URL, redirecting, refreshing, starting, active]);
    expect(await resourceManager.application(ID)).toMatchObject({ id: ID, state: 'RUNNING', finishedAt: null, amNodeHttp: null });
  });

  test('stays with the ResourceManager that answered', async () => {
    const asked: string[] = [];
    const standby = await serve((_, response) => {
      asked.push('standby');
      response.writeHead(307).end();
    });
    const active = await serve((_, response) => {
      asked.push('active');
      json(response, { app });
    });
    const resourceManager = manager([standby, active]);
    for (let call = 0; call < 3; call += 1) {
      await resourceManager.application(ID);
    }
    expect(asked).toEqual(['standby', 'active', 'active', 'active']);
  });

  test('waits until a ResourceManager becomes active', async () => {
    let calls = 0;
    const address = await serve((_, response) => {
      calls += 1;
      if (calls < 4) {
        response.destroy();
      } else {
        json(response, { app });
      }
    });
    expect((await manager([address]).application(ID)).id).toBe(ID);
  });

  test('retries when a starting ResourceManager does not know the application', async () => {
    let asked = 0;
    const address = await serve((request, response) => {
      if (request.url?.startsWith('/ws/v1/cluster/info')) {
        return json(response, { clusterInfo: { haState: asked < 3 ? 'INITIALIZING' : 'ACTIVE' } });
      }
      asked += 1;
      if (asked < 4) {
        json(response, { RemoteException: { exception: 'NotFoundException', message: 'app not found' } }, 404);
      } else {
        json(response, { app });
      }
    });
    expect((await manager([address]).application(ID)).id).toBe(ID);
    expect(asked).toBe(4);
  });

  test('gives up with the reason and exit code 3', async () => {
    await expect(manager([CLOSED_URL], { maxWaitMs: 100 }).nodes()).rejects.toMatchObject({
      code: 'RM_UNREACHABLE',
      exitCode: 3,
      message: expect.stringMatching(/127\.0\.0\.1:\d+.*ECONNREFUSED/),
      hint: expect.stringContaining('yarn.resourcemanager'),
    });
  });

  test('waits for a response only until the timeout', async () => {
    const address = await serve(() => undefined);
    await expect(manager([address], { maxWaitMs: 0, timeoutMs: 50 }).nodes()).rejects.toThrow('no response within 50 ms');
  });

  test('ignores the proxy settings of the environment', async () => {
    const address = await serve((_, response) => json(response, { app }));
    for (const name of ['http_proxy', 'HTTP_PROXY']) {
      vi.stubEnv(name, 'http://127.0.0.1:1');
    }
    onTestFinished(() => void vi.unstubAllEnvs());
    expect((await manager([address], { maxWaitMs: 0 }).application(ID)).id).toBe(ID);
  });
});

describe('each refusal causes a specific error', () => {
  const remote = (exception: string, message: string) => ({
    RemoteException: { exception, message, javaClassName: `org.apache.${exception}` },
  });

  test.each([
    [404, remote('NotFoundException', `java.lang.Exception: app with id: ${ID} not found`), 'JOB_NOT_FOUND', ID],
    [400, remote('BadRequestException', 'java.lang.IllegalArgumentException: too large'), 'RM_DENIED', 'rejected the request: too large'],
    [
      400,
      remote('BadRequestException', 'java.lang.IllegalStateException: org.apache.hadoop.AccessControlException: not in queue gpu'),
      'RM_DENIED',
      'rejected the request: not in queue gpu',
    ],
    [403, remote('ForbiddenException', 'Unauthorized attempt to kill appid x by remote user bob'), 'RM_DENIED', 'by remote user bob'],
    [500, remote('RuntimeException', ''), 'RM_DENIED', 'RuntimeException'],
    [404, 'not one', 'RM_UNREACHABLE', 'is not a ResourceManager: HTTP 404'],
    [200, 'not json', 'RM_UNREACHABLE', 'is not a ResourceManager: its response is not JSON'],
    [200, { app: { id: 3 } }, 'RM_UNREACHABLE', 'answer has an unexpected form: app.id is missing or has another type'],
    [200, {}, 'RM_UNREACHABLE', 'answer has an unexpected form: app is missing'],
    [500, '<html>failed</html>', 'RM_UNREACHABLE', 'failed to serve the request (HTTP 500)'],
    [
      403,
      '<html><h1>The default static user\n cannot carry out this operation.</h1></html>',
      'RM_DENIED',
      'The default static user cannot carry out',
    ],
    [401, '<html>Authentication required</html>', 'RM_DENIED', 'requires authentication'],
  ])('HTTP %s with %j', async (status, body, code, message) => {
    const address = await serve((_, response) => {
      if (typeof body === 'string') {
        response.writeHead(status).end(body);
      } else {
        json(response, body, status);
      }
    });
    const failure = await manager([address])
      .application(ID)
      .catch((thrown) => thrown);
    expect(failure).toMatchObject({ code, message: expect.stringContaining(message) });
    if (code === 'RM_UNREACHABLE' || status === 401) {
      expect(`${failure.message} ${failure.hint}`).toContain(address);
    }
  });

  test('rejects malformed IDs before sending a request', async () => {
    await expect(manager([]).application('application_1/../../x')).rejects.toMatchObject({ code: 'USAGE' });
    await expect(manager([]).proxy('../x', '')).rejects.toMatchObject({ code: 'USAGE' });
  });
});

test('sends a submission with the user and everything that a container needs, and repeats it when the response is lost', async () => {
  const seen: { url: string | undefined; body: unknown }[] = [];
  const address = await serve((request, response, body) => {
    seen.push({ url: request.url, body: JSON.parse(body) });
    if (seen.length === 1) {
      response.destroy();
    } else {
      response.writeHead(202, { Location: 'http://x/' }).end();
    }
  });
  await manager([address]).submit({
    applicationId: ID,
    name: 'mnist',
    type: 'TONY',
    queue: 'gpu',
    tags: ['a', 'b'],
    memoryMb: 512,
    vcores: 1,
    nodeLabel: 'big',
    priority: 0,
    maxAttempts: 2,
    failureWindowMs: null,
    keepContainers: true,
    tokens: [],
    keepTokens: false,
    command: 'exec x 1><LOG_DIR>/tony.log 2>&1',
    environment: { A: 'say "$HOME"' },
    resources: [{ name: 'tony', uri: 'hdfs://nn/x.tgz', type: 'archive', visibility: 'private', size: 5, timestamp: 7 }],
    secrets: new Map([['tony.job', Uint8Array.of(251, 255)]]),
    acls: { view: { users: ['alice', 'bob'], groups: ['staff'] }, modify: { users: [], groups: [] } },
  });
  expect(seen).toHaveLength(2);
  expect(seen[1]).toEqual({
    url: '/ws/v1/cluster/apps?user.name=alice',
    body: {
      'application-id': ID,
      'application-name': 'mnist',
      'application-type': 'TONY',
      'application-tags': { tag: ['a', 'b'] },
      queue: 'gpu',
      'unmanaged-AM': false,
      'cancel-tokens-when-complete': true,
      priority: 0,
      'max-app-attempts': 2,
      'keep-containers-across-application-attempts': true,
      resource: { memory: 512, vCores: 1 },
      'am-container-node-label-expression': 'big',
      'am-container-spec': {
        commands: { command: 'exec x 1><LOG_DIR>/tony.log 2>&1' },
        environment: { entry: [{ key: 'A', value: 'say \\"\\$HOME\\"' }] },
        'local-resources': {
          entry: [{ key: 'tony', value: { resource: 'hdfs://nn/x.tgz', type: 'ARCHIVE', visibility: 'PRIVATE', size: 5, timestamp: 7 } }],
        },
        credentials: { tokens: {}, secrets: { entry: [{ key: 'tony.job', value: '-_8' }] } },
        'application-acls': {
          entry: [
            { key: 'VIEW_APP', value: 'alice,bob staff' },
            { key: 'MODIFY_APP', value: ' ' },
          ],
        },
      },
    },
  });
});

test('reads lists in all formats of the ResourceManager', async () => {
  const answers: unknown[] = [{ apps: null }, { apps: {} }, { apps: { app: [app] } }, { apps: { app } }, { apps: null }];
  const urls: (string | undefined)[] = [];
  const address = await serve((request, response) => {
    urls.push(request.url);
    json(response, answers.shift());
  });
  const resourceManager = manager([address], { user: null });
  expect(await resourceManager.applications()).toEqual([]);
  expect(
    await resourceManager.applications({ user: 'alice', states: ['RUNNING', 'ACCEPTED'], types: ['TONY'], tags: ['t'], limit: 3 }),
  ).toEqual([]);
  expect(await resourceManager.applications()).toHaveLength(1);
  expect(await resourceManager.applications()).toMatchObject([{ id: ID }]);
  await resourceManager.applications({ submitted: { from: 5, to: 7 } });
  expect(urls).toEqual([
    '/ws/v1/cluster/apps',
    '/ws/v1/cluster/apps?user=alice&states=RUNNING%2CACCEPTED&applicationTypes=TONY&applicationTags=t&limit=3',
    '/ws/v1/cluster/apps',
    '/ws/v1/cluster/apps',
    '/ws/v1/cluster/apps?startedTimeBegin=5&startedTimeEnd=7',
  ]);
});

describe('the proxy of the ResourceManager', () => {
  test("serves the ApplicationMaster's pages, with path and query", async () => {
    const address = await serve(
      (request, response) => void response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(request.url)),
    );
    expect(await manager([address]).proxy(ID, 'tony/api/v1/job?since=3')).toEqual({
      status: 200,
      contentType: 'application/json',
      body: `"/proxy/${ID}/tony/api/v1/job?since=3&user.name=alice"`,
    });
  });

  test.each([
    [302, { Location: `/cluster/app/${ID}` }],
    [404, { 'Content-Type': 'text/html;charset=utf-8' }],
  ])("the ApplicationMaster's pages are unavailable when the proxy answers %i", async (status, headers) => {
    const address = await serve((_, response) => void response.writeHead(status, headers).end('<html/>'));
    expect(await manager([address]).proxy(ID, '/tony/')).toBeNull();
  });
});
