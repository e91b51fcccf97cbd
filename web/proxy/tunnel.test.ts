import { expect, test } from 'vitest';
import { type Answer, ask, serve, upstream } from '../job-site.fixture.ts';

const TEXT = { 'content-type': 'text/plain' };

interface Received {
  readonly method: string;
  readonly url: string;
  readonly type: string;
  readonly body: string;
}

async function site(): Promise<{ readonly port: number; readonly token: string; readonly received: Received[] }> {
  const received: Received[] = [];
  const tensorboard = await upstream((request, response) => {
    if (request.url === '/') {
      response.setHeader('Content-Type', 'text/html');
      response.end('<html><head></head></html>');
      return;
    }
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      received.push({ method, url, type: headers['content-type'] ?? '', body: Buffer.concat(chunks).toString('hex') });
      response.writeHead(url === '/bad' ? 400 : 200, { 'Content-Type': 'application/json', 'Cache-Control': 'max-age=9' });
      response.end('{"ok":1}');
    });
  });
  const port = await serve({ tensorboard });
  const [, token = ''] = /data-token="([^"]+)"/.exec((await ask(port, '/')).body) ?? [];
  return { port, token, received };
}

function envelope(token: string, change: Record<string, unknown> = {}, body: Uint8Array = Buffer.from('hi €\n x')): string {
  const head = { m: 'POST', u: '/data/plugin?x={"a":1}', h: [['Content-Type', 'text/x; boundary=1']], ...change };
  return `${token}.${Buffer.from(JSON.stringify(head)).toString('base64url')}.${Buffer.from(body).toString('base64url')}`;
}

function put(port: number, body: string): Promise<Answer> {
  return ask(port, '/tony/tunnel', { method: 'PUT', headers: TEXT, body });
}

test('PUT, one GET, and several GETs in parts deliver the same request', async () => {
  const { port, token, received } = await site();
  const u = '/data/plugin?x=%7B%22a%22%3A1%7D';
  const whole = envelope(token, { u });
  const answers = [await put(port, whole), await ask(port, `/tony/tunnel?e=${whole}`)];
  const chunks = whole.match(/.{1,20}/g) ?? [];
  const last = `/tony/tunnel?t=${token}&id=abcdefgh&n=${chunks.length}`;
  for (const index of chunks.keys()) {
    // In reverse order, each part twice.
    const at = chunks.length - 1 - index;
    for (const _ of [1, 2]) {
      await ask(port, `/tony/tunnel/part?t=${token}&id=abcdefgh&i=${at}&d=${chunks[at]}`);
    }
    if (index < chunks.length - 1) {
      expect((await ask(port, last)).status).toBe(409);
    }
  }
  answers.push(await ask(port, last));
  for (const answer of answers) {
    expect([answer.status, answer.body, answer.headers['cache-control']]).toEqual([200, '{"ok":1}', 'no-store']);
  }
  const expected = { method: 'POST', url: u, type: 'text/x; boundary=1', body: '686920e282ac0a2078' };
  expect(received).toEqual([expected, expected, expected]);
  expect((await ask(port, last)).status).toBe(409);
});

test('the tunnel forwards a GET request and returns TensorBoard’s status', async () => {
  const { port, token, received } = await site();
  expect((await put(port, envelope(token, { m: 'GET', u: '/bad', h: [] }))).status).toBe(400);
  expect(received).toEqual([{ method: 'GET', url: '/bad', type: '', body: '' }]);
});

test('the tunnel rejects every request without the page’s token', async () => {
  const { port, token, received } = await site();
  const wrong = `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`;
  for (const given of [wrong, '', `${token}A`]) {
    expect((await put(port, envelope(given))).status).toBe(403);
    expect((await ask(port, `/tony/tunnel?e=${envelope(given)}`)).status).toBe(403);
    expect((await ask(port, `/tony/tunnel/part?t=${given}&id=abcdefgh&i=0&d=x`)).status).toBe(403);
    expect((await ask(port, `/tony/tunnel?t=${given}&id=abcdefgh&n=1`)).status).toBe(403);
    expect((await ask(port, `/tony/tunnel/probe?e=${given}.word`)).status).toBe(403);
  }
  expect(received).toEqual([]);
});

test('a probe returns the nonce that was sent', async () => {
  const { port, token } = await site();
  expect((await ask(port, '/tony/tunnel/probe', { method: 'PUT', headers: TEXT, body: `${token}.word` })).body.trim()).toBe('word');
  expect((await ask(port, `/tony/tunnel/probe?e=${token}.word`)).body.trim()).toBe('word');
  expect((await ask(port, `/tony/tunnel/probe?e=${token}.<script>`)).status).toBe(400);
});

test.each([
  ['another host', { u: 'http://evil.example/' }, 400],
  ['a host without a scheme', { u: '//evil.example/' }, 400],
  ['our own pages', { u: '/tony/api/v1/job' }, 400],
  ['characters that a path cannot contain', { u: '/a b' }, 400],
  ['a header injected into the path', { u: '/a\r\nX: y' }, 400],
  ['no path', { u: 5 }, 400],
  ['another method', { m: 'DELETE' }, 405],
])('the tunnel rejects %s', async (_, change, status) => {
  const { port, token, received } = await site();
  expect((await put(port, envelope(token, change))).status).toBe(status);
  expect(received).toEqual([]);
});

test('the tunnel drops unsafe headers, and distinguishes damaged data from wrong tokens', async () => {
  const { port, token, received } = await site();
  const h = [['Content-Type', 'a\r\nX-Evil: 1'], ['Cookie', 'a=b'], ['Host', 'evil.example'], 'x', [1, 2]];
  expect((await put(port, envelope(token, { h, u: '/a' }))).status).toBe(200);
  expect(received).toMatchObject([{ type: '', url: '/a' }]);
  expect((await put(port, `${token}.!!!`)).status).toBe(400);
  expect((await put(port, `${token}.${Buffer.from('null').toString('base64url')}.`)).status).toBe(405);
});

test('the tunnel limits the size of a body and of incomplete requests', async () => {
  const { port, token } = await site();
  const large = await put(port, `${token}.${'x'.repeat(17 << 20)}`).catch(() => null);
  // The server may close the connection while the client is still sending the body. Both outcomes are refusals.
  if (large !== null) {
    expect(large.status).toBe(413);
  }
  expect((await ask(port, `/tony/tunnel/part?t=${token}&id=abcdefgh&i=4096&d=x`)).status).toBe(400);
  expect((await ask(port, `/tony/tunnel/part?t=${token}&id=ab&i=0&d=x`)).status).toBe(400);
  const chunk = 'x'.repeat(60_000);
  const statuses = new Set<number>();
  for (let index = 0; index < 300; index++) {
    statuses.add((await ask(port, `/tony/tunnel/part?t=${token}&id=abcdefgh&i=${index}&d=${chunk}`)).status);
  }
  expect([...statuses]).toEqual([200, 413]);
});
