import type { ServerResponse } from 'node:http';
import { connect as connectTo, type Socket } from 'node:net';
import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import type { TensorBoardStatus } from '../conf/status/status.ts';
import { ask, serve, upstream } from './job-site.fixture.ts';
import type { TensorBoardTarget } from './proxy/tensorboard-target.ts';

const POLICY = 'content-security-policy';

function target(state: TensorBoardStatus['state'], message = ''): TensorBoardTarget {
  return { status: () => ({ state, message }), connect: null };
}

describe('a job site without TensorBoard', () => {
  test.each(['off', 'unavailable'] as const)('also serves the job’s page at the root while TensorBoard is %s', async (state) => {
    const port = await serve({ tensorboard: target(state) });
    const root = await ask(port, '/');
    const page = await ask(port, '/tony/');
    for (const [answer, base] of [
      [root, 'tony/'],
      [page, ''],
    ] as const) {
      expect(answer.status).toBe(200);
      const [, script = ''] = /<script type="module" src="([^"]+)"/.exec(answer.body) ?? [];
      expect(script).toMatch(new RegExp(`^${base}assets/job-[0-9a-f]+\\.js$`));
      expect(answer.headers[POLICY]).toMatch(/default-src 'none'; script-src 'self'/);
      const asset = await ask(port, new URL(script, `http://x${answer === root ? '/' : '/tony/'}`).pathname, {
        headers: { 'accept-encoding': 'gzip' },
      });
      expect(asset.headers).toMatchObject({ 'content-encoding': 'gzip', 'cache-control': expect.stringContaining('immutable') });
    }
    // Only the root checks for a trailing slash that a gateway has dropped.
    expect(root.body).toContain("endsWith('/')");
    expect(page.body).not.toContain("endsWith('/')");
    expect((await ask(port, '/data/runs')).status).toBe(state === 'off' ? 404 : 503);
  });

  test.each(['waiting', 'starting'] as const)('serves a page with the reason at the root while TensorBoard is %s', async (state) => {
    const port = await serve({ tensorboard: target(state, 'No <node> is free.') });
    const answer = await ask(port, '/');
    expect(answer.status).toBe(200);
    expect(answer.body).toContain('No &lt;node&gt; is free.');
    expect(answer.body).toContain('href="tony/"');
    expect(answer.headers).toMatchObject({ 'cache-control': 'no-store', [POLICY]: expect.not.stringContaining('unsafe') });
  });

  test('serves a waiting page at the root and 503 elsewhere when TensorBoard does not respond', async () => {
    const unreachable: TensorBoardTarget = { status: () => ({ state: 'ready', message: '' }), connect: () => connectTo(1, '127.0.0.1') };
    const throwing: TensorBoardTarget = {
      ...unreachable,
      connect: () => {
        throw new Error('not there');
      },
    };
    for (const tensorboard of [unreachable, throwing, { ...unreachable, connect: null }]) {
      const port = await serve({ tensorboard });
      expect((await ask(port, '/')).body).toContain('does not respond');
      expect((await ask(port, '/data/runs')).status).toBe(503);
    }
  });
});

test('the job site rejects unsupported methods, unsafe paths and oversized headers', async () => {
  const port = await serve();
  const put = await ask(port, '/', { method: 'PUT', body: 'x' });
  expect([put.status, put.headers.allow]).toEqual([405, 'GET, HEAD']);
  expect((await ask(port, '/tony/api/v1/job', { method: 'POST' })).headers.allow).toBe('GET, HEAD');
  const tunnel = await ask(port, '/tony/tunnel', { method: 'DELETE' });
  expect([tunnel.status, tunnel.headers.allow]).toEqual([405, 'GET, PUT']);
  for (const path of ['/../etc/passwd', '/a/%2e%2E/b', '/a%2fb', '//evil.example/', 'http://evil.example/', '/a\\b', '*']) {
    expect((await ask(port, path)).status).toBe(400);
  }
  expect((await ask(port, '/tony/assets/nothing.js')).status).toBe(404);
  expect((await ask(port, '/tony/assets/..')).status).toBe(400);
  expect((await ask(port, '/tony')).body).toContain('url=tony/');
  expect((await ask(port, '/tony/api/v1/job', { headers: { cookie: 'x'.repeat(100_000) } })).status).toBe(200);
  expect((await ask(port, '/tony/api/v1/job', { headers: { cookie: 'x'.repeat(150_000) } })).status).toBe(431);
  const head = await ask(port, '/tony/', { method: 'HEAD' });
  expect([head.status, head.body]).toEqual([200, '']);
});

describe('a job site in front of TensorBoard', () => {
  test('forwards no credentials to TensorBoard, and returns no cookies or proxy headers from it', async () => {
    let received: Record<string, unknown> = {};
    const tensorboard = await upstream((request, response) => {
      received = { ...request.headers, url: request.url };
      response.setHeader('Set-Cookie', 'a=b');
      response.setHeader('Proxy-Authenticate', 'x');
      response.setHeader('Cache-Control', 'max-age=5');
      response.setHeader('Content-Type', 'application/json');
      response.end('[1]');
    });
    const port = await serve({ tensorboard });
    const headers = {
      accept: 'text/x',
      authorization: 'Bearer secret',
      cookie: 'proxy-user=alice',
      connection: 'close, x-private',
      'x-private': '1',
      'x-forwarded-host': 'evil.example',
      'x-tensorboard-feature-flags': '{}',
    };
    const answer = await ask(port, '/data/runs?a=b%2Fc', { headers });
    expect([answer.status, answer.body]).toEqual([200, '[1]']);
    expect(answer.headers).toMatchObject({ 'cache-control': 'max-age=5', 'x-content-type-options': 'nosniff' });
    expect(answer.headers['set-cookie'] ?? answer.headers['proxy-authenticate']).toBeUndefined();
    expect(received).toMatchObject({
      accept: 'text/x',
      'x-tensorboard-feature-flags': '{}',
      host: 'tensorboard',
      url: '/data/runs?a=b%2Fc',
    });
    expect(Object.keys(received)).not.toEqual(expect.arrayContaining([expect.stringMatching(/authorization|cookie|private|forwarded/)]));
  });

  test('adds the gateway script to TensorBoard’s page and extends the page’s content security policy', async () => {
    const page = '<!doctype html><html><head><style>@font-face{src:url(/font/a.woff2)}</style></head><body></body></html>';
    const tensorboard = await upstream((request, response) => {
      const gzipped = request.headers['accept-encoding'] === 'gzip';
      response.writeHead(200, {
        'Content-Type': 'text/html; charset=utf-8',
        'Content-Security-Policy': "script-src 'unsafe-eval'; frame-ancestors *",
        ...(gzipped && { 'Content-Encoding': 'gzip' }),
        ETag: '"1"',
      });
      response.end(gzipped ? gzipSync(page) : page);
    });
    const port = await serve({ tensorboard });
    const root = await ask(port, '/', { headers: { 'accept-encoding': 'gzip' } });
    expect(root.headers).toMatchObject({ 'content-encoding': 'gzip', 'cache-control': 'no-store' });
    expect(root.headers.etag).toBeUndefined();
    expect(root.headers[POLICY]).toMatch(/^script-src 'unsafe-eval' 'self' 'sha256-.+'; frame-ancestors 'self'$/);
    const html = gunzipSync(root.bytes).toString();
    expect(html).toMatch(
      /<head><script>.*<\/script><script src="tony\/assets\/tunnel-[0-9a-f]+\.js" data-token="[\w-]{24}" data-job><\/script><style>/,
    );
    expect(html).toContain('url(./font/a.woff2)');
    const inner = await ask(port, '/data/plugin/x/index.html');
    expect(inner.body).toMatch(
      /<head><script src="\.\.\/\.\.\/\.\.\/tony\/assets\/tunnel-[0-9a-f]+\.js" data-token="[\w-]{24}"><\/script>/,
    );
    expect(inner.body).toContain('url(../../../font/a.woff2)');
  });

  test('rewrites redirects within the site and rejects others', async () => {
    const tensorboard = await upstream((request, response) => {
      response.writeHead(302, { Location: new URL(request.url ?? '', 'http://x').searchParams.get('to') ?? '' }).end();
    });
    const port = await serve({ tensorboard });
    expect((await ask(port, '/a/b?to=/c')).headers.location).toBe('../c');
    const elsewhere = await ask(port, '/a/b?to=http://evil.example/');
    expect([elsewhere.status, elsewhere.headers.location]).toEqual([502, undefined]);
  });

  test('streams a body of any size, and reports a truncated body as incomplete', async () => {
    const piece = Buffer.alloc(1 << 20, 7);
    const tensorboard = await upstream((request, response) => {
      response.writeHead(200, { 'Content-Type': 'application/octet-stream' });
      for (let sent = 0; sent < 8; sent++) {
        response.write(piece);
      }
      if (request.url === '/broken') {
        response.write('x', () => response.destroy());
      } else {
        response.end();
      }
    });
    const port = await serve({ tensorboard });
    expect((await ask(port, '/whole')).bytes.length).toBe(8 << 20);
    await expect(ask(port, '/broken')).rejects.toThrow(/aborted|reset|hang up/i);
  });

  test('replaces a connection that TensorBoard has closed', async () => {
    let connections = 0;
    const tensorboard = await upstream((request, response) => {
      response.setHeader('Content-Type', 'text/plain');
      response.end('x');
      setImmediate(() => request.socket.destroy());
    });
    const counted: TensorBoardTarget = {
      ...tensorboard,
      connect: () => {
        connections++;
        if (tensorboard.connect === null) {
          throw new Error('expected one');
        }
        return tensorboard.connect();
      },
    };
    const port = await serve({ tensorboard: counted });
    for (let count = 0; count < 20; count++) {
      expect((await ask(port, '/x')).status).toBe(200);
    }
    expect(connections).toBeGreaterThan(1);
  });

  test('answers a request although TensorBoard has closed several idle connections', async () => {
    const used = new Set<Socket>();
    const waiting: ServerResponse[] = [];
    const tensorboard = await upstream(({ socket }, response) => {
      // Closes the connection before the proxy notices, so the proxy reuses a dead connection for the next request.
      if (used.has(socket)) {
        return void socket.destroy();
      }
      used.add(socket);
      waiting.push(response);
      // Answers the first requests at the same time to force one connection per request.
      if (used.size >= 3) {
        for (const each of waiting.splice(0)) {
          each.end('x');
        }
      }
    });
    const port = await serve({ tensorboard });
    await Promise.all([1, 2, 3].map(() => ask(port, '/x')));
    for (const connections of [4, 5, 6]) {
      expect((await ask(port, '/x')).status).toBe(200);
      expect(used.size).toBe(connections);
    }
  });
});
