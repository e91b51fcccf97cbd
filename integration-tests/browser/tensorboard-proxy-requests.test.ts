import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, type TestContext, test } from 'vitest';
import { jobView, SILENT } from '../../web/job-site.fixture.ts';
import { JobSite } from '../../web/job-site.ts';
import { WebServer } from '../../web/server/server.ts';
import { HANGS_MS } from '../until.ts';
import { useBrowser } from './chromium.ts';
import { startGateway } from './tensorboard-proxy-gateway.ts';

const openBrowser = useBrowser();

/** Description of the request that the upstream server received. */
interface Echo {
  readonly method: string;
  readonly url: string;
  readonly type: string;
  readonly hex: string;
}

/** Opens a page behind a gateway. The upstream server responds to each request with a description of that request. */
async function openPage(context: TestContext, passes: readonly string[]): Promise<Page> {
  const browser = await openBrowser(context);
  const echo = createServer((request, response) => {
    if (request.url?.split('?')[0] === '/') {
      response.setHeader('Content-Type', 'text/html');
      response.end('<!doctype html><html><head></head><body>a page</body></html>');
      return;
    }
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      if (url === '/silent') {
        return;
      }
      const received: Echo = { method, url, type: headers['content-type'] ?? '', hex: Buffer.concat(chunks).toString('hex') };
      response.writeHead(url === '/refused' ? 400 : 200, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify(received));
    });
  }).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  const { port } = echo.address() as AddressInfo;
  const tensorboard = { status: () => ({ state: 'ready', message: '' }) as const, connect: () => connect(port, '127.0.0.1') };
  const site = new JobSite({ view: jobView(), tensorboard, access: { kind: 'authorised' }, log: SILENT });
  const web = await WebServer.open({ address: '127.0.0.1', site, log: SILENT });
  const gateway = await startGateway(web.port, { passes, longest: 8000 });
  onTestFinished(() => {
    gateway.close();
    web.close();
    site.close();
    echo.close();
    echo.closeAllConnections();
  });
  const page = await browser.newPage();
  page.setDefaultTimeout(HANGS_MS);
  await page.goto(gateway.url);
  return page;
}

const TOOLS = `
  const asFetch = async (url, options) => (await fetch(url, options)).json();
  const asXhr = (url, body, { method = 'POST', wait = true, headers = {} } = {}) => new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    const events = [];
    for (const name of ['readystatechange', 'loadstart', 'load', 'error', 'abort', 'loadend']) {
      xhr.addEventListener(name, () => events.push(name === 'readystatechange' ? 'r' + xhr.readyState : name));
    }
    xhr.onloadend = () => resolve({ ...JSON.parse(xhr.responseText || '{}'), status: xhr.status, responseURL: xhr.responseURL, events });
    xhr.open(method, url, wait);
    for (const [name, value] of Object.entries(headers)) xhr.setRequestHeader(name, value);
    xhr.send(body);
    if (!wait) resolve({ ...JSON.parse(xhr.responseText), status: xhr.status });
  });
  const form = (...parts) => { const made = new FormData(); for (const [name, value] of parts) made.append(name, value); return made; };
`;

function evaluate<T>(page: Page, expression: string): Promise<T> {
  return page.evaluate<T>(`(async () => { ${TOOLS} return ${expression}; })()`);
}

const WAYS = [
  ['PUT', ['PUT']],
  ['GET', []],
] as const;

const hex = (text: string): string => Buffer.from(text).toString('hex');

for (const [way, passes] of WAYS) {
  test(`requests sent by ${way} arrive unchanged`, async (context) => {
    const page = await openPage(context, passes);
    const text = 'hi €\n x';
    expect(await evaluate(page, `asFetch('data/a?b=1', { method: 'POST', body: ${JSON.stringify(text)} })`)).toEqual({
      method: 'POST',
      url: '/data/a?b=1',
      type: 'text/plain;charset=UTF-8',
      hex: hex(text),
    });
    const long = await evaluate<Echo>(page, `asFetch(new Request('x', { method: 'POST', body: new Uint8Array(50000).fill(7) }))`);
    expect(long).toMatchObject({ method: 'POST', url: '/x', hex: '07'.repeat(50_000) });
    const odd = '/data/a%252Fb?flag&requests=[{"a b":1}]&x=100%25';
    const oddAnswer = await evaluate<Echo>(page, `asFetch('.' + ${JSON.stringify(odd)})`);
    expect(oddAnswer).toMatchObject({ method: 'GET', url: new URL(odd, 'http://x').href.slice('http://x'.length), hex: '' });
    expect(await evaluate<Echo>(page, `asFetch('data/plain?run=a%2Fb')`)).toMatchObject({ method: 'GET', url: '/data/plain?run=a%2Fb' });
    expect(await evaluate(page, `fetch('refused', { method: 'POST' }).then((answer) => [answer.status, answer.url])`)).toEqual([
      400,
      new URL('refused', page.url()).href,
    ]);
  });

  test(`an XMLHttpRequest sent by ${way} behaves as without the tunnel`, async (context) => {
    const page = await openPage(context, passes);
    const url = new URL('data/x', page.url()).href;
    const sent = await evaluate(page, `asXhr('data/x#part', 'né', { headers: { 'Content-Type': 'application/json', 'X-Other': '1' } })`);
    expect(sent).toEqual({
      method: 'POST',
      url: '/data/x',
      type: 'application/json',
      hex: hex('né'),
      status: 200,
      responseURL: url,
      events: ['r1', 'loadstart', 'r2', 'r3', 'r4', 'load', 'loadend'],
    });
    const form = await evaluate<Echo>(page, `asXhr('data/x', form(['tag', 'a"b'], ['runs', 'x\\ny']))`);
    const [, boundary = ''] = /^multipart\/form-data; boundary=([\w-]+)$/.exec(form.type) ?? [];
    expect(Buffer.from(form.hex, 'hex').toString()).toBe(
      `--${boundary}\r\nContent-Disposition: form-data; name="tag"\r\n\r\na"b\r\n--${boundary}\r\nContent-Disposition: form-data; name="runs"\r\n\r\nx\r\ny\r\n--${boundary}--\r\n`,
    );
    const file = await evaluate<Echo>(page, `asXhr('data/x', form(['file', new Blob(['bytes'], { type: 'text/x' })]))`);
    expect(Buffer.from(file.hex, 'hex').toString()).toContain('filename="blob"\r\nContent-Type: text/x\r\n\r\nbytes\r\n');
    expect(await evaluate(page, `asXhr('data/x', new URLSearchParams({ a: 'b c' }))`)).toMatchObject({ hex: hex('a=b+c') });
    expect(await evaluate(page, `asXhr('data/x', 'z'.repeat(9000), { wait: false })`)).toMatchObject({
      status: 200,
      hex: '7a'.repeat(9000),
    });
    expect(await evaluate(page, `asXhr('data/x', null, { method: 'GET' })`)).toMatchObject({ method: 'GET', url: '/data/x', status: 200 });
  });

  test(`requests sent by ${way} stop when the page aborts them`, async (context) => {
    const page = await openPage(context, passes);
    // Aborts two requests: the first while its Blob body is read (asynchronously), the second while its response is pending.
    for (const moment of ['0', 'new Promise((resolve) => setTimeout(resolve, 500))']) {
      const events = await evaluate(
        page,
        `new Promise((resolve) => {
          const xhr = new XMLHttpRequest();
          const events = [];
          for (const name of ['load', 'error', 'abort', 'loadend']) xhr.addEventListener(name, () => events.push(name));
          xhr.open('POST', 'silent');
          xhr.send(new Blob(['x']));
          Promise.resolve(${moment}).then(() => { xhr.abort(); setTimeout(() => resolve([...events, xhr.readyState]), 500); });
        })`,
      );
      expect(events).toEqual(['abort', 'loadend', 0]);
    }
    expect(
      await evaluate(
        page,
        `(async () => {
          const stop = new AbortController();
          setTimeout(() => stop.abort(), 300);
          return fetch('silent', { method: 'POST', body: 'x', signal: stop.signal }).catch((error) => error.name);
        })()`,
      ),
    ).toBe('AbortError');
    expect(
      await evaluate(
        page,
        `new Promise((resolve) => {
          const xhr = new XMLHttpRequest();
          xhr.open('POST', 'data/first');
          xhr.send(new Blob(['x']));
          xhr.open('POST', 'data/second');
          xhr.onload = () => resolve(JSON.parse(xhr.responseText).url);
          xhr.send('y');
        })`,
      ),
    ).toBe('/data/second');
    expect(
      await evaluate(
        page,
        `(() => { const xhr = new XMLHttpRequest(); xhr.open('POST', 'x'); xhr.send('1'); try { xhr.send('2'); } catch (error) { return error.name; } })()`,
      ),
    ).toBe('InvalidStateError');
  });
}
