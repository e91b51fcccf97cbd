import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Login, SimpleLogin } from '../security/login.ts';
import { CLOSED_URL } from '../testing/closed-port.ts';
import { listening } from '../testing/http-server.ts';
import { WebHdfs } from './web-hdfs.ts';
import type { WebHdfsOptions } from './web-hdfs-transport.ts';

type Handler = (request: IncomingMessage, response: ServerResponse, query: URLSearchParams, path: string) => void;

let servers: Server[];
let clients: WebHdfs[];
beforeEach(() => {
  servers = [];
  clients = [];
});
afterEach(() => {
  for (const client of clients) {
    client.close();
  }
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

async function serve(handler: Handler): Promise<string> {
  const server = createServer((request, response) => {
    const { searchParams, pathname } = new URL(request.url ?? '', 'http://x');
    handler(request, response, searchParams, pathname);
  });
  servers.push(server);
  return listening(server);
}

function client(addresses: string[], options: WebHdfsOptions & { login?: Login } = {}): WebHdfs {
  const made = new WebHdfs({ login: new SimpleLogin('alice'), maxWaitMs: 2_000, idleTimeoutMs: 5_000, ...options, addresses });
  clients.push(made);
  return made;
}

const json = (response: ServerResponse, value: unknown, status = 200): void =>
  void response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
const refuse = (response: ServerResponse, exception: string, message = '', status = 403): void =>
  json(response, { RemoteException: { exception, javaClassName: `x.${exception}`, message } }, status);
const status = (more: Record<string, unknown> = {}) => ({
  FileStatus: {
    pathSuffix: '',
    type: 'FILE',
    length: 10,
    modificationTime: 5,
    permission: '644',
    owner: 'alice',
    group: 'g',
    fileId: 77,
    ...more,
  },
});
async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  return Buffer.concat((await request.toArray()) as Buffer[]);
}

describe('NameNodes', () => {
  test('NameNodes are tried in order: an unreachable one, a standby, one in safe mode, the active one', async () => {
    const active = await serve((_, response) => json(response, status()));
    const standby = await serve((_, response) =>
      refuse(response, 'StandbyException', 'Operation category READ is not supported in state standby'),
    );
    const safe = await serve((_, response) => refuse(response, 'SafeModeException', 'Name node is in safe mode.'));
    const hdfs = client([CLOSED_URL, standby, safe, active]);
    expect(await hdfs.status('/a')).toEqual({
      name: '',
      type: 'file',
      length: 10,
      modificationTime: 5,
      permission: 0o644,
      owner: 'alice',
      fileId: 77,
    });
  });

  test('an error contains the last response if all NameNodes refuse the request', async () => {
    const standby = await serve((_, response) => refuse(response, 'StandbyException', 'This is a standby.'));
    await expect(client([standby], { maxWaitMs: 100 }).makeFolder('/a', 0o755)).rejects.toMatchObject({
      code: 'HDFS_UNREACHABLE',
      exitCode: 3,
      message: expect.stringMatching(/^MKDIRS \/a: .*127\.0\.0\.1:\d+: This is a standby\. \(StandbyException\)$/),
    });
  });

  test('a refused user name is explained with the ways to change it', async () => {
    const message =
      'Invalid value for webhdfs parameter "user.name": Invalid value: "first.last@CORP.COM" does not belong to the domain ^[A-Za-z_][A-Za-z0-9._-]*[$]?$';
    const strict = await serve((_, response) => refuse(response, 'IllegalArgumentException', message));
    for (const asking of [client([strict]).status('/apps/x'), client([strict]).read('/apps/x'), client([strict]).makeFolder('/a', 0o755)]) {
      await expect(asking).rejects.toMatchObject({
        code: 'STORAGE_DENIED',
        message: expect.stringMatching(/^The NameNode does not accept the user name\. .*first\.last@CORP\.COM/),
        hint: expect.stringMatching(/HADOOP_USER_NAME.*dfs\.webhdfs\.user\.provider\.user\.pattern/),
      });
    }
  });

  test('a client waits for a NameNode in safe mode as long as for a first response, and names safe mode', async () => {
    const safe = await serve((request, response) =>
      request.method === 'GET' ? json(response, status()) : refuse(response, 'SafeModeException', 'Name node is in safe mode.'),
    );
    const standby = await serve((_, response) => refuse(response, 'StandbyException', 'This is a standby.'));
    const hdfs = client([safe, standby], { maxWaitMs: 600_000, maxFirstWaitMs: 100 });
    await hdfs.status('/a');
    const refused = {
      code: 'HDFS_UNAVAILABLE',
      exitCode: 3,
      hint: expect.stringContaining('hdfs dfsadmin -safemode get'),
    };
    await expect(hdfs.makeFolder('/a', 0o755)).rejects.toMatchObject({
      ...refused,
      message: expect.stringMatching(/^MKDIRS \/a: .*127\.0\.0\.1:\d+: Name node is in safe mode\. \(SafeModeException\)$/),
    });
    await expect(hdfs.create('/a', Buffer.from('x'), { overwrite: true, permission: 0o644 })).rejects.toMatchObject(refused);
  });

  test('a NameNode that does not respond is abandoned after the idle timeout', async () => {
    const silent = await serve(() => undefined);
    await expect(client([silent], { maxWaitMs: 0, idleTimeoutMs: 1000 }).status('/a')).rejects.toThrow('no progress for 1000 ms');
  });

  test.each([
    ['a status', (hdfs: WebHdfs) => hdfs.status('/a')],
    ['a download', (hdfs: WebHdfs) => hdfs.read('/a')],
    ['an upload', (hdfs: WebHdfs) => hdfs.create('/a', Buffer.from('x'), { overwrite: true, permission: 0o644 })],
  ])('a NameNode that never responds to the first request is given up early: %s', async (_, ask) => {
    const silent = await serve(() => undefined);
    const options = { maxWaitMs: 600_000, maxFirstWaitMs: 0, firstAnswerTimeoutMs: 200 };
    await expect(ask(client([silent], options))).rejects.toMatchObject({
      code: 'HDFS_UNREACHABLE',
      message: expect.stringMatching(/The last attempt failed at http:\/\/127\.0\.0\.1:\d+: no progress for 200 ms$/),
    });
  });

  test('a NameNode that has responded before may take longer', async () => {
    let asked = 0;
    const slow = await serve((_, response) => {
      asked += 1;
      setTimeout(() => json(response, status()), asked === 1 ? 0 : 1_500);
    });
    const hdfs = client([slow], { maxWaitMs: 0, firstAnswerTimeoutMs: 1_000 });
    await hdfs.status('/a');
    expect(await hdfs.status('/a')).not.toBeNull();
  });

  test.each([
    ['an HTML page', 404, '<html>not found</html>', 'HDFS_UNREACHABLE', 'does not speak WebHDFS: HTTP 404'],
    ['plain text', 200, 'hello', 'HDFS_UNREACHABLE', 'is not JSON'],
    ['unexpected JSON', 200, '{"FileStatus":{}}', 'HDFS_UNREACHABLE', 'a FileStatus lacks'],
    ['a demand for Kerberos', 401, '<html>Authentication required</html>', 'HDFS_DENIED', 'requires authentication'],
    [
      'a demand for Kerberos as JSON',
      401,
      '{"RemoteException":{"exception":"AuthenticationException","javaClassName":"x","message":"Anonymous requests are disallowed"}}',
      'HDFS_DENIED',
      'requires authentication (HTTP 401: Anonymous requests are disallowed)',
    ],
    ['an error of its own', 500, '<html>failed</html>', 'HDFS_UNREACHABLE', 'failed to serve the request (HTTP 500)'],
  ])('a NameNode that responds with %s causes a specific error', async (_what, code, body, error, message) => {
    const address = await serve((_, response) => void response.writeHead(code).end(body));
    const failure = await client([address])
      .status('/a')
      .catch((thrown) => thrown);
    expect(failure).toMatchObject({ code: error, message: expect.stringContaining(message) });
    expect(failure.message).toContain(new URL(address).host);
    await expect(client([address]).read('/a')).rejects.toMatchObject({ message: expect.stringContaining(new URL(address).host) });
    await expect(client([address]).list('/a')).rejects.toMatchObject({ message: expect.stringContaining(new URL(address).host) });
  });

  test('requests carry the user name or the token, and errors never show the token', async () => {
    const seen: string[] = [];
    const address = await serve((request, response) => {
      seen.push(request.url ?? '');
      refuse(response, 'InvalidToken', 'token expired');
    });
    await expect(client([address]).status('/a b/%41?#é')).rejects.toMatchObject({ code: 'TOKEN_EXPIRED' });
    class WithToken extends SimpleLogin {
      override identify = async () => ({ query: { delegation: 'SECRET' } as Record<string, string>, headers: {} });
    }
    const error = await client([address], { login: new WithToken(null) })
      .status('/a')
      .catch((thrown: unknown) => thrown);
    expect(seen).toEqual([
      '/webhdfs/v1/a%20b/%2541%3F%23%C3%A9?op=GETFILESTATUS&user.name=alice',
      '/webhdfs/v1/a?op=GETFILESTATUS&delegation=SECRET',
    ]);
    expect(JSON.stringify([error, (error as Error).message, (error as Error).stack])).not.toContain('SECRET');
  });
});

describe('a refusal maps to an error code', () => {
  test.each([
    ['FileNotFoundException', 'x', 'NOT_FOUND'],
    ['AccessControlException', 'Permission denied: user=alice', 'ACCESS_DENIED'],
    [
      'SecurityException',
      'Failed to obtain user group information: org.apache.hadoop.security.token.SecretManager$InvalidToken: Token  has expired',
      'TOKEN_EXPIRED',
    ],
    ['FileAlreadyExistsException', 'x', 'ALREADY_EXISTS'],
    ['NSQuotaExceededException', 'The NameSpace quota', 'STORAGE_FULL'],
    ['IOException', 'File /a could only be written to 0 of the 1 minReplication nodes.', 'STORAGE_FULL'],
    ['ParentNotDirectoryException', 'x\n\tat org.apache', 'STORAGE_DENIED'],
  ])('%s', async (exception, message, code) => {
    const address = await serve((_, response) => refuse(response, exception, message));
    await expect(client([address]).makeFolder('/a', 0o755)).rejects.toMatchObject({
      code,
      message: expect.stringMatching(/^\/a: [^\n]*$/),
    });
  });
});

describe('writing a file', () => {
  const removed: string[] = [];

  /** Starts a NameNode and a DataNode that accepts uploads, with either form of redirect. */
  async function cluster(form: 'json' | '307', take: Handler): Promise<string> {
    const dataNode = await serve(take);
    return serve((request, response, query, path) => {
      if (request.method === 'DELETE') {
        removed.push(path);
        json(response, { boolean: true });
        return;
      }
      expect(query.get('noredirect')).toBe('true');
      const location = `${dataNode}${path}?${query}`;
      if (form === 'json') {
        json(response, { Location: location });
      } else {
        response.writeHead(307, { Location: location }).end();
      }
    });
  }

  test.each(['json', '307'] as const)('follows a redirect in the form %s', async (form) => {
    const taken: unknown[] = [];
    const address = await cluster(form, async (request, response, query) => {
      taken.push([request.method, query.get('op'), query.get('permission'), query.get('overwrite'), (await bodyOf(request)).length]);
      response.writeHead(201).end();
    });
    await client([address]).create('/a', Buffer.alloc(3_000_001), { overwrite: true, permission: 0o600 });
    expect(taken).toEqual([['PUT', 'CREATE', '600', 'true', 3_000_001]]);
  });

  test('sends bytes from memory again when the DataNode breaks the connection', async () => {
    let tries = 0;
    const address = await cluster('json', async (request, response) => {
      tries += 1;
      if (tries < 3) {
        await once(request, 'data');
        request.destroy();
        return;
      }
      expect((await bodyOf(request)).equals(Buffer.alloc(5_000_000, 3))).toBe(true);
      response.writeHead(201).end();
    });
    const progress: number[] = [];
    await client([address]).create('/a', Buffer.alloc(5_000_000, 3), {
      overwrite: true,
      permission: 0o644,
      onProgress: (bytes) => progress.push(bytes),
    });
    expect(tries).toBe(3);
    expect(progress.at(-1)).toBe(5_000_000);
  });

  test('sends a stream of known length without chunked encoding, and rejects a stream of a different length', async () => {
    const headers: (string | undefined)[] = [];
    const address = await cluster('json', async (request, response) => {
      headers.push(request.headers['content-length'], request.headers['transfer-encoding']);
      await bodyOf(request).catch(() => undefined);
      response.writeHead(201).end();
    });
    async function* source(): AsyncIterable<Buffer> {
      for (let piece = 0; piece < 3; piece++) {
        yield Buffer.alloc(700_000, piece);
      }
    }
    const options = { overwrite: true, permission: 0o644 };
    await client([address]).create('/a', source(), { ...options, length: 2_100_000 });
    expect(headers).toEqual(['2100000', undefined]);
    for (const length of [2_099_999, 2_100_001]) {
      await expect(client([address]).create('/a', source(), { ...options, length })).rejects.toMatchObject({ code: 'INTERNAL' });
    }
  });

  test('resends a source that can be reopened, from its first byte', async () => {
    let tries = 0;
    const address = await cluster('json', async (request, response) => {
      tries += 1;
      if (tries < 3) {
        await once(request, 'data');
        request.destroy();
        return;
      }
      expect((await bodyOf(request)).equals(Buffer.alloc(5_000_000, 3))).toBe(true);
      response.writeHead(201).end();
    });
    async function* source(): AsyncIterable<Buffer> {
      for (let piece = 0; piece < 5; piece++) {
        yield Buffer.alloc(1_000_000, 3);
      }
    }
    await client([address]).create('/a', source, { overwrite: true, permission: 0o644, length: 5_000_000 });
    expect(tries).toBe(3);
  });

  test('the error names the quota even if the response that rejected a long stream was lost', async () => {
    const address = await cluster('json', async (request, response, _, path) => {
      let received = 0;
      for await (const chunk of request as AsyncIterable<Buffer>) {
        received += chunk.length;
        if (received > 1) {
          request.destroy();
          return;
        }
      }
      // A file that replaces the unfinished one is within the quota.
      if (path === '/webhdfs/v1/a') {
        response.writeHead(201).end();
        return;
      }
      const RemoteException = { exception: 'DSQuotaExceededException', message: 'The DiskSpace quota is exceeded' };
      response.writeHead(403, { 'content-type': 'application/json' }).end(JSON.stringify({ RemoteException }));
    });
    async function* source(): AsyncIterable<Buffer> {
      for (;;) {
        yield Buffer.alloc(500_000);
      }
    }
    await expect(client([address]).create('/a', source(), { overwrite: true, permission: 0o644 })).rejects.toMatchObject({
      code: 'STORAGE_FULL',
      message: expect.stringContaining('quota'),
    });
    expect(removed).toEqual(['/webhdfs/v1/a.probe']);
  });

  test('fails when the connection breaks during a stream that cannot be reopened', async () => {
    const address = await cluster('json', async (request) => {
      await once(request, 'data');
      request.destroy();
    });
    let closed = false;
    async function* source(): AsyncIterable<Buffer> {
      try {
        for (;;) {
          yield Buffer.alloc(500_000);
        }
      } finally {
        closed = true;
      }
    }
    await expect(client([address]).create('/a', source(), { overwrite: true, permission: 0o644 })).rejects.toMatchObject({
      code: 'HDFS_UNREACHABLE',
      message: expect.stringContaining('cannot be read again'),
    });
    expect(closed).toBe(true);
  });

  test("fails with the DataNode's error when the DataNode rejects the data", async () => {
    const address = await cluster('json', async (request, response) => {
      await once(request, 'data');
      refuse(response, 'DSQuotaExceededException', 'The DiskSpace quota of /a is exceeded');
    });
    let yielded = 0;
    async function* endless(): AsyncIterable<Buffer> {
      for (; ; yielded += 1) {
        yield Buffer.alloc(1_000_000);
      }
    }
    await expect(client([address]).create('/a', endless(), { overwrite: true, permission: 0o644 })).rejects.toMatchObject({
      code: 'STORAGE_FULL',
    });
    expect(yielded).toBeLessThan(1000);
  });

  test('waits for a source that pauses, but not for a DataNode that pauses', async () => {
    const address = await cluster('json', async (request, response, _, path) => {
      if (path.endsWith('stuck')) {
        return;
      }
      await bodyOf(request);
      response.writeHead(201).end();
    });
    let release = (): void => undefined;
    const pause = new Promise<void>((resolve) => {
      release = resolve;
    });
    async function* slow(): AsyncIterable<Buffer> {
      yield Buffer.alloc(2_000_000);
      await pause;
      yield Buffer.alloc(1);
    }
    const options = { overwrite: true, permission: 0o644 };
    const written = client([address], { idleTimeoutMs: 2_000, maxWaitMs: 0 }).create('/a', slow(), options);
    setTimeout(release, 3_000);
    await written;
    const stuck = client([address], { idleTimeoutMs: 1000, maxWaitMs: 0 }).create('/stuck', Buffer.alloc(50_000_000), options);
    await expect(stuck).rejects.toThrow('no progress for 1000 ms');
  });
});

describe('reading a file', () => {
  const data = Buffer.from(Array.from({ length: 1_000_000 }, (_, index) => (index * 7) % 253));

  /** Serves OPEN requests; `give` receives the requested range. */
  async function file(
    give: (response: ServerResponse, bytes: Buffer, opened: number) => void,
    changed: (opened: number) => Record<string, unknown> = () => ({}),
  ): Promise<string> {
    let opened = 0;
    const dataNode = await serve((_, response, query) => {
      opened += 1;
      const offset = Number(query.get('offset'));
      const length = query.get('length');
      give(response, data.subarray(offset, length === null ? data.length : offset + Number(length)), opened);
    });
    return serve((_, response, query, path) => {
      if (query.get('op') === 'GETFILESTATUS') {
        json(response, status({ length: data.length, ...changed(opened) }));
      } else {
        json(response, { Location: `${dataNode}${path}?${query}` });
      }
    });
  }
  const breakOff = (response: ServerResponse, bytes: Buffer, after: number): void => {
    response.writeHead(200, { 'Content-Length': bytes.length });
    response.write(bytes.subarray(0, after), () => response.destroy());
  };

  test('continues where a connection broke', async () => {
    const address = await file((response, bytes, opened) => {
      if (opened < 4) {
        breakOff(response, bytes, 200_000);
      } else {
        response.writeHead(200, { 'Content-Length': bytes.length }).end(bytes);
      }
    });
    const stream = await client([address]).open('/a', { offset: 11, length: 900_000 });
    expect(Buffer.concat(await stream.toArray()).equals(data.subarray(11, 900_011))).toBe(true);
  });

  test('treats a response that ends early as a broken connection', async () => {
    const address = await file((response, bytes, opened) => void response.writeHead(200).end(opened === 1 ? bytes.subarray(0, 10) : bytes));
    expect(Buffer.concat(await (await client([address]).open('/a')).toArray()).equals(data)).toBe(true);
  });

  test('fails after two consecutive connections without data', async () => {
    let connections = 0;
    const address = await file((response, bytes) => {
      connections += 1;
      breakOff(response, bytes, 0);
    });
    const stream = await client([address]).open('/a');
    await expect(stream.toArray()).rejects.toMatchObject({ code: 'HDFS_UNREACHABLE' });
    expect(connections).toBe(2);
  });

  test('never mixes two versions of a file', async () => {
    const address = await file(
      (response, bytes) => breakOff(response, bytes, 1000),
      (opened) => (opened === 0 ? {} : { modificationTime: 6 }),
    );
    const stream = await client([address]).open('/a');
    await expect(stream.toArray()).rejects.toMatchObject({ code: 'STORAGE_DENIED', message: '/a was changed while it was read.' });
  });

  test('delivers the new version of a file that is replaced after its status was read', async () => {
    const versions = [data.length - 1, data.length + 1, data.length];
    const address = await file(
      (response, bytes) => void response.writeHead(200, { 'Content-Length': bytes.length }).end(bytes),
      (opened) => ({ length: versions[opened], modificationTime: opened }),
    );
    const stream = await client([address]).open('/a', { offset: 1000 });
    expect(Buffer.concat(await stream.toArray()).equals(data.subarray(1000))).toBe(true);
  });

  test('fails if each response has another length than the status', async () => {
    const address = await file(
      (response, bytes) => void response.writeHead(200, { 'Content-Length': bytes.length }).end(bytes),
      () => ({ length: data.length - 1 }),
    );
    await expect((await client([address]).open('/a')).toArray()).rejects.toThrow('/a was changed while it was read.');
  });

  test('restarts the read of a whole file after a broken connection, and rejects a file that is too large', async () => {
    const address = await file((response, bytes, opened) => {
      if (opened < 3) {
        breakOff(response, bytes, 100_000);
      } else {
        response.writeHead(200, { 'Content-Length': bytes.length }).end(bytes);
      }
    });
    expect((await client([address]).read('/a')).equals(data)).toBe(true);
    const huge = await file((response) => void response.writeHead(200, { 'Content-Length': 5e9 }).write('x'));
    await expect(client([huge]).read('/a')).rejects.toMatchObject({
      code: 'STORAGE_DENIED',
      message: expect.stringContaining('the limit for files'),
    });
  });

  test('waits for a slow reader, and buffers only a limited amount', async () => {
    let connections = 0;
    const address = await file((response, bytes) => {
      connections += 1;
      response.writeHead(200, { 'Content-Length': bytes.length }).end(bytes);
    });
    const stream = await client([address], { idleTimeoutMs: 2_000 }).open('/a');
    await once(stream, 'readable');
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(stream.readableLength).toBeLessThan(500_000);
    expect(connections).toBe(1);
    expect(Buffer.concat(await stream.toArray()).equals(data)).toBe(true);
  });

  test('closes the connection when the reader stops', async () => {
    let closed: Promise<unknown> | undefined;
    const address = await file((response, bytes) => {
      closed = once(response, 'close');
      response.writeHead(200, { 'Content-Length': bytes.length }).write(bytes.subarray(0, 100));
    });
    const stream = await client([address]).open('/a');
    await once(stream, 'readable');
    stream.destroy();
    await closed;
  });
});

describe('after a lost response', () => {
  /** Executes each request, but closes the first connection without a response. */
  async function forgetful(afterwards: Handler): Promise<string> {
    let calls = 0;
    return serve((request, response, query, path) => {
      if (query.get('op') === 'GETFILESTATUS') {
        return afterwards(request, response, query, path);
      }
      calls += 1;
      if (calls === 1) {
        response.destroy();
      } else {
        afterwards(request, response, query, path);
      }
    });
  }

  test('a rename succeeds if the first attempt was executed', async () => {
    let asked = 0;
    const address = await forgetful((_, response, query, path) => {
      if (query.get('op') === 'RENAME') {
        return refuse(response, 'FileNotFoundException', 'rename source /from is not found.', 404);
      }
      asked += 1;
      if (path.endsWith('/from') && asked > 1) {
        refuse(response, 'FileNotFoundException', '', 404);
      } else {
        json(response, status());
      }
    });
    expect(await client([address]).rename('/from', '/to', { overwrite: false })).toBe('renamed');
  });

  test('a rename fails if another file has taken the target name', async () => {
    const address = await forgetful((_, response, query, path) => {
      if (query.get('op') === 'RENAME') {
        refuse(response, 'FileAlreadyExistsException', 'rename destination /to already exists');
      } else {
        json(response, status({ fileId: path.endsWith('/from') ? 77 : 78 }));
      }
    });
    expect(await client([address]).rename('/from', '/to', { overwrite: false })).toBe('target-exists');
  });

  test('a removal succeeds if the first attempt was executed', async () => {
    const address = await forgetful((_, response) => json(response, { boolean: false }));
    expect(await client([address]).remove('/a')).toBe(true);
  });
});

test('the room below a folder is limited by its space quota, its name quota and the file system', async () => {
  const summary = { quota: 1_000, fileCount: 40, directoryCount: 10, spaceQuota: 5_000, spaceConsumed: 6_000 };
  const address = await serve((_request, response, query) =>
    json(response, query.get('op') === 'GETSTATUS' ? { FsStatus: { remaining: 77 } } : { ContentSummary: summary }),
  );
  expect(await client([address]).room('/user/alice')).toEqual({ ofQuota: 0, ofNames: 950, ofFileSystem: 77 });
});

describe('listing the first names of a folder', () => {
  const entries = ['a', 'b', 'c', 'd', 'e'].map((pathSuffix) => status({ pathSuffix }).FileStatus);
  /** Serves two entries per response, in the format of Hadoop's JsonUtil. */
  const inParts = (asked: string[]) =>
    serve((_request, response, query) => {
      const after = query.get('startafter') ?? '';
      asked.push(`${query.get('op')} ${after}`);
      const rest = entries.filter(({ pathSuffix }) => pathSuffix > after);
      const partialListing = { FileStatuses: { FileStatus: rest.slice(0, 2) } };
      json(response, { DirectoryListing: { partialListing, remainingEntries: Math.max(0, rest.length - 2) } });
    });

  test('fetches only as many parts as needed', async () => {
    const asked: string[] = [];
    const hdfs = client([await inParts(asked)]);
    expect((await hdfs.listFirst('/x', 3))?.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    expect(asked.splice(0)).toEqual(['LISTSTATUS_BATCH ', 'LISTSTATUS_BATCH b']);
    expect(await hdfs.listFirst('/x', 100)).toHaveLength(5);
    expect(asked).toEqual(['LISTSTATUS_BATCH ', 'LISTSTATUS_BATCH b', 'LISTSTATUS_BATCH d']);
  });

  test('returns null for a missing folder, and ends when the NameNode returns an empty part', async () => {
    const missing = await serve((_request, response) => refuse(response, 'FileNotFoundException', 'File /x does not exist.', 404));
    expect(await client([missing]).listFirst('/x', 3)).toBeNull();
    const empty = await serve((_request, response) =>
      json(response, { DirectoryListing: { partialListing: { FileStatuses: { FileStatus: [] } }, remainingEntries: 7 } }),
    );
    expect(await client([empty]).listFirst('/x', 3)).toEqual([]);
    const strange = await serve((_request, response) => json(response, { DirectoryListing: {} }));
    await expect(client([strange]).listFirst('/x', 3)).rejects.toMatchObject({ code: 'HDFS_UNREACHABLE' });
  });
});
