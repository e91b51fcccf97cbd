import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { afterEach, expect, test } from 'vitest';
import { SimpleLogin } from '../security/login.ts';
import { listening } from '../testing/http-server.ts';
import { WebHdfs } from './web-hdfs.ts';

/**
 * These tests send requests through gateways: through Knox with its documented redirects, and through a NameNode that is configured as a
 * gateway.
 */

let servers: Server[] = [];
let hdfs: WebHdfs | undefined;
afterEach(() => {
  hdfs?.close();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  servers = [];
});

async function serve(handler: (request: IncomingMessage, response: ServerResponse, url: URL) => void): Promise<string> {
  const server = createServer((request, response) => handler(request, response, new URL(request.url ?? '', 'http://x')));
  servers.push(server);
  return listening(server);
}

class Basic extends SimpleLogin {
  override identify = async () => ({ query: {} as Record<string, string>, headers: { Authorization: 'Basic SECRET' } });
}

function through(gateway: string): WebHdfs {
  hdfs = new WebHdfs({ addresses: [gateway], isGateway: true, login: new Basic(null), maxWaitMs: 500 });
  return hdfs;
}

const json = (response: ServerResponse, value: unknown): void => void response.end(JSON.stringify(value));

test('a transfer through Knox takes two requests, and each contains the identity of the sender', async () => {
  const seen: string[] = [];
  const stored = new Map<string, Buffer>();
  const address = await serve(async (request, response, url) => {
    seen.push(`${request.method} ${url.pathname} ${url.searchParams.get('op') ?? ''} ${request.headers.authorization === 'Basic SECRET'}`);
    const body = Buffer.concat(await request.toArray());
    if (url.pathname === '/gateway/default/webhdfs/data/v1/file' && request.method === 'PUT') {
      stored.set('file', body);
      response.writeHead(201).end();
    } else if (url.pathname === '/gateway/default/webhdfs/data/v1/file') {
      response.end(stored.get('file'));
    } else if (url.searchParams.get('op') === 'GETFILESTATUS') {
      json(response, {
        FileStatus: { pathSuffix: '', type: 'FILE', length: stored.get('file')?.length ?? 0, modificationTime: 1, fileId: 7 },
      });
    } else {
      expect([url.searchParams.has('noredirect'), body.length]).toEqual([false, 0]);
      response.writeHead(307, { Location: `http://${request.headers.host}/gateway/default/webhdfs/data/v1/file?_=AAAACAAAABAAAAEQ` }).end();
    }
  });
  const knox = through(`${address}/gateway/default`);
  await knox.create('/file', Buffer.from('hello'), { overwrite: true, permission: 0o644 });
  expect((await knox.read('/file')).toString()).toBe('hello');
  expect(Buffer.concat(await (await knox.open('/file')).toArray()).toString()).toBe('hello');
  expect(seen).toEqual([
    'PUT /gateway/default/webhdfs/v1/file CREATE true',
    'PUT /gateway/default/webhdfs/data/v1/file  true',
    'GET /gateway/default/webhdfs/v1/file OPEN true',
    'GET /gateway/default/webhdfs/data/v1/file  true',
    'GET /gateway/default/webhdfs/v1/file GETFILESTATUS true',
    'GET /gateway/default/webhdfs/v1/file OPEN true',
    'GET /gateway/default/webhdfs/data/v1/file  true',
  ]);
});

test('a gateway that redirects to a DataNode is rejected before the DataNode receives the identity or the data', async () => {
  const reached: string[] = [];
  const dataNode = await serve((request, response) => {
    reached.push(request.url ?? '');
    response.end();
  });
  const nameNode = await serve((_, response) => {
    response.writeHead(307, { Location: `${dataNode}/webhdfs/v1/file?op=CREATE&delegation=TOKEN` }).end();
  });
  const error = await through(nameNode)
    .create('/file', () => Readable.from([Buffer.from('x')]), { overwrite: true, permission: 0o644 })
    .catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({
    code: 'HDFS_UNREACHABLE',
    message: `The gateway ${nameNode} redirects file transfers to ${dataNode}.`,
  });
  await expect(hdfs?.read('/file')).rejects.toMatchObject({ code: 'HDFS_UNREACHABLE' });
  expect(reached).toEqual([]);
});

test('the first rename shows whether a gateway can replace files in one step', async () => {
  const requests: string[] = [];
  const address = await serve((request, response, url) => {
    requests.push(`${request.method} ${url.pathname} ${url.searchParams.get('op')}`);
    if (url.searchParams.get('op') === 'RENAME') {
      response.end();
    } else if (url.pathname.endsWith('/missing') || url.pathname.includes('.writing')) {
      response.writeHead(404);
      json(response, { RemoteException: { exception: 'FileNotFoundException', message: 'no' } });
    } else {
      json(response, { FileStatus: { pathSuffix: '', type: 'FILE', length: 1, modificationTime: 1, fileId: 7 } });
    }
  });
  const knox = through(address);
  expect(await knox.status('/missing')).toBeNull();
  // HttpFS may be replacing the file at this moment.
  expect(requests).toHaveLength(3);
  expect(await knox.rename('/a', '/b', { overwrite: true })).toBe('renamed');
  requests.length = 0;
  expect(await knox.status('/missing')).toBeNull();
  expect(requests).toEqual(['GET /webhdfs/v1/missing GETFILESTATUS']);
});
