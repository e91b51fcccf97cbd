import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { HadoopConfiguration } from '../configuration/configuration.ts';
import { listening } from '../testing/http-server.ts';
import { aggregatedFolders, ContainerLogs, type LogOwner, type LogRange } from './container-logs.ts';

let servers: Server[];
let readers: ContainerLogs[];
beforeEach(() => {
  servers = [];
  readers = [];
});
afterEach(() => {
  for (const reader of readers) {
    reader.close();
  }
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

async function node(handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<LogOwner> {
  const server = createServer(handler);
  servers.push(server);
  const address = await listening(server);
  return { containerId: 'container_1_0001_01_000002', nodeHttp: address.replace('http://', ''), owner: 'alice' };
}

function reader(properties: Readonly<Record<string, string>> = {}): ContainerLogs {
  const made = new ContainerLogs({
    configuration: HadoopConfiguration.fromProperties({ 'fs.defaultFS': 'hdfs://127.0.0.1:1', ...properties }),
    user: 'alice',
  });
  readers.push(made);
  return made;
}

/** Builds a NodeManager's response with the last `size` bytes of `content`. */
function answer(request: IncomingMessage, content: string): string {
  const size = Number(new URL(request.url ?? '', 'http://x').searchParams.get('size'));
  const part = size === 0 ? '' : content.slice(size);
  return `Container: x on y\nLogAggregationType: LOCAL\n====\nLogType:f\nLogLastModifiedTime:z\nLogLength:${content.length}\nLogContents:\n${part}End of LogType:f.This log file belongs to a running container (x) and so may not be complete.\n****\n\n`;
}

test.each([
  ['running', '.This log file belongs to a running container (x) and so may not be complete.', false],
  ['finished', '', true],
])('reads an empty file of a %s container on Hadoop 2.10, which omits the header', async (_state, running, complete) => {
  const container = await node((_, response) => void response.end(`End of LogType:f${running}\n****\n\n`));
  const empty = { bytes: Buffer.alloc(0), offset: 0, size: 0, complete };
  expect(await reader().read(container, 'f', { offset: 0 })).toEqual(empty);
  expect(await reader().read(container, 'f', { tail: 100 })).toEqual(empty);
});

test('reads the correct range even if the file grows between two requests', async () => {
  let content = 'a'.repeat(200_000);
  const sizes: string[] = [];
  const container = await node((request, response) => {
    sizes.push(request.url ?? '');
    content += sizes.length < 3 ? 'b'.repeat(400_000) : 'c';
    response.end(answer(request, content));
  });
  const piece = await reader().read(container, 'f', { offset: 199_998, limit: 4 });
  expect(piece).toEqual({ bytes: Buffer.from('aabb'), offset: 199_998, size: 1_000_001, complete: false });
  expect(sizes).toHaveLength(3);
  expect(sizes[0]).toBe('/ws/v1/node/containers/container_1_0001_01_000002/logs/f?size=-65536&user.name=alice');
});

test('gives up on a file that grows faster than it can be read', async () => {
  let content = '';
  const container = await node((request, response) => {
    content += 'x'.repeat(5_000_000);
    response.end(answer(request, content));
  });
  await expect(reader().read(container, 'f', { offset: 0 })).rejects.toMatchObject({
    code: 'LOGS_UNAVAILABLE',
    message: expect.stringContaining('grows faster'),
  });
});

test('reports the log of an ended container as complete while it is still on the node', async () => {
  const container = await node(
    (request, response) => void response.end(answer(request, 'done').replace(/\.This log file.*complete\./, '')),
  );
  expect(await reader().read(container, 'f', { tail: 100 })).toEqual({ bytes: Buffer.from('done'), offset: 0, size: 4, complete: true });
});

test('reads the beginning of a tail that exceeds the limit, with one request', async () => {
  let questions = 0;
  const container = await node((request, response) => {
    questions++;
    response.end(answer(request, '0123456789'));
  });
  const read = (range: LogRange) => reader().read(container, 'f', range);
  expect(await read({ tail: 7, limit: 4 })).toEqual({ bytes: Buffer.from('3456'), offset: 3, size: 10, complete: false });
  expect(await read({ tail: 20, limit: 4 })).toEqual({ bytes: Buffer.from('0123'), offset: 0, size: 10, complete: false });
  expect(questions).toBe(2);
});

const STORED = { containerId: 'container_1795236426747_0003_02_000001', owner: 'alice' };

/** Starts a NameNode with the aggregated log STORED, and a NodeManager that has deleted its local log files. Returns the server address. */
async function hdfs(): Promise<string | null> {
  const stored = readFileSync(path.join(import.meta.dirname, '..', 'golden', 'aggregated-log-none.tfile'));
  const json = (response: ServerResponse, value: unknown): void =>
    void response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
  const status = {
    ...{ pathSuffix: 'node_1', type: 'FILE', length: stored.length, modificationTime: 5 },
    ...{ permission: '640', owner: 'alice', group: 'g', fileId: 7 },
  };
  const { nodeHttp } = await node((request, response) => {
    const { searchParams, host, pathname } = new URL(request.url ?? '', `http://${request.headers.host}`);
    const operation = searchParams.get('op');
    if (pathname.startsWith('/ws/v1/node/')) {
      response.writeHead(404).end('Cannot find this log on the local disk.');
    } else if (operation === 'LISTSTATUS') {
      json(response, { FileStatuses: { FileStatus: [status] } });
    } else if (operation === 'GETFILESTATUS') {
      json(response, { FileStatus: status });
    } else if (pathname !== '/data') {
      json(response, { Location: `http://${host}/data?${searchParams}` });
    } else {
      const offset = Number(searchParams.get('offset'));
      const length = searchParams.get('length');
      response.end(stored.subarray(offset, length === null ? stored.length : offset + Number(length)));
    }
  });
  return nodeHttp;
}

test('reads the same tail from an aggregated log on HDFS', async () => {
  const logs = reader({ 'dfs.namenode.http-address': (await hdfs()) ?? '' });
  const read = (range: LogRange) => logs.read({ ...STORED, nodeHttp: null }, 'tony.log', range);
  expect(await read({ tail: 11, limit: 4 })).toEqual({ bytes: Buffer.from('xxla'), offset: 109, size: 120, complete: false });
  expect(await read({ tail: 500, limit: 12 })).toMatchObject({ bytes: Buffer.from('first line\nx'), offset: 0 });
  expect(await read({ tail: 11 })).toMatchObject({ bytes: Buffer.from('xxlast line'), complete: true });
});

test('reads from HDFS a file that its node has just removed; returns null if the file is missing or HDFS is not configured', async () => {
  const nodeHttp = await hdfs();
  const container = { ...STORED, nodeHttp };
  const logs = reader({ 'dfs.namenode.http-address': nodeHttp ?? '' });
  expect(await logs.read(container, 'tony.log', { tail: 9 })).toMatchObject({ bytes: Buffer.from('last line'), complete: true });
  expect(await logs.read(container, 'none', { tail: 9 })).toBeNull();
  expect(await reader({ 'fs.defaultFS': 's3a://bucket' }).read(container, 'tony.log', { tail: 9 })).toBeNull();
});

test('reads lists in all formats of the NodeManager', async () => {
  const file = { fileName: 'f', fileSize: '12' };
  for (const infos of [{ containerLogInfo: file }, { containerLogInfo: [file] }, [{ containerLogInfo: [file] }]]) {
    const container = await node((_, response) => void response.end(JSON.stringify({ containerLogsInfo: infos })));
    expect(await reader().files(container)).toEqual([{ name: 'f', size: 12 }]);
  }
});

test("sends requests only to a node given as host and port: no other part of the URL comes from another user's data", async () => {
  const asked: string[] = [];
  const { nodeHttp } = await node((request, response) => {
    asked.push(request.url ?? '');
    response.writeHead(404).end('{}');
  });
  const logs = reader({ 'fs.defaultFS': 's3a://bucket' });
  const forged = [
    `${nodeHttp}/admin?x#`,
    `${nodeHttp}#`,
    `x@${nodeHttp}`,
    `${nodeHttp}\\x`,
    `${nodeHttp}/`,
    '',
    'host',
    'host:1:2',
    'a b:1',
  ];
  for (const each of forged) {
    const container = { containerId: 'container_1_0001_01_000002', nodeHttp: each, owner: 'alice' };
    await expect(logs.read(container, 'f', { tail: 5 })).rejects.toMatchObject({ code: 'LOGS_UNAVAILABLE' });
    await expect(logs.files(container)).rejects.toMatchObject({ code: 'LOGS_UNAVAILABLE' });
  }
  await expect(logs.read({ containerId: '../../admin', nodeHttp, owner: 'alice' }, 'f', { tail: 5 })).rejects.toThrow();
  expect(asked).toEqual([]);
  await logs.files({ containerId: 'container_1_0001_01_000002', nodeHttp, owner: 'alice' }).catch(() => []);
  expect(asked).toHaveLength(1);
});

test('reports ACCESS_DENIED to a user who may not view the logs', async () => {
  const container = await node((_, response) => void response.writeHead(500).end('User [bob] is not authorized to view the logs for x'));
  await expect(reader().read(container, 'f', { tail: 5 })).rejects.toMatchObject({
    code: 'ACCESS_DENIED',
    message: expect.stringContaining('[bob]'),
  });
  await expect(reader().files(container)).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
});

test.each([
  ['a truncated log', 'LogLength:50\nLogContents:\nshort'],
  ['a page without a log', 'x'.repeat(100_000)],
  ['a header without a length', 'LogType:f\nLogContents:\nx'],
])('rejects a response with %s', async (_what, body) => {
  const container = await node((_, response) => void response.end(`Container: x\n${body}`));
  await expect(reader().read(container, 'f', { tail: 40 })).rejects.toMatchObject({ code: 'LOGS_UNAVAILABLE' });
});

test('looks for aggregated logs in the configured folders', () => {
  const container = { containerId: 'container_e02_1700_12345_01_000001', owner: 'alice' };
  const from = HadoopConfiguration.fromProperties;
  expect(aggregatedFolders(from({ 'fs.defaultFS': 'hdfs://nn:1' }), container)).toEqual([
    'hdfs://nn:1/tmp/logs/alice/bucket-logs-tfile/2345/application_1700_12345',
    'hdfs://nn:1/tmp/logs/alice/logs-tfile/application_1700_12345',
    'hdfs://nn:1/tmp/logs/alice/logs/application_1700_12345',
  ]);
  const other = { 'yarn.nodemanager.remote-app-log-dir': 'hdfs://blue/y/', 'yarn.nodemanager.remote-app-log-dir-suffix': 's' };
  expect(aggregatedFolders(from(other), container)[0]).toBe('hdfs://blue/y/alice/bucket-s-tfile/2345/application_1700_12345');
  expect(aggregatedFolders(from({ 'fs.defaultFS': 'viewfs://c/' }), container)[0]).toMatch(/^viewfs:\/\/c\/tmp\/logs\/alice\//);
  expect(() => aggregatedFolders(from({}), container)).toThrow('which is not HDFS');
});
