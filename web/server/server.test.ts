import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Agent, get, type IncomingMessage } from 'node:http';
import { get as getTls, Agent as TlsAgent } from 'node:https';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { type ProtectedKey, privateKeyOf, readJavaKeyStore } from '../../hadoop/tls/java-key-store.ts';
import { toPem } from '../../hadoop/tls/pem.ts';
import { answerText } from './answer.ts';
import { type JobPages, WebServer } from './server.ts';

async function open(mostConnections: number, site: Partial<JobPages> = {}): Promise<number> {
  const handle: JobPages['handle'] = async (request, response) => answerText(request, response, 200, 'hello');
  const web = await WebServer.open({
    address: '127.0.0.1',
    site: { handle, ...site },
    log: pino({ level: 'silent' }),
    mostConnections,
  });
  onTestFinished(() => web.close());
  return web.port;
}

async function silent(port: number, count: number): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1'));
  onTestFinished(() => {
    for (const socket of sockets) {
      socket.destroy();
    }
  });
  for (const socket of sockets) {
    socket.on('error', () => {}).resume();
  }
  await Promise.all(sockets.map((socket) => (socket.connecting ? once(socket, 'connect') : null)));
  return sockets;
}

const remaining = (sockets: readonly Socket[]): number => sockets.filter(({ closed }) => !closed).length;

async function ask(port: number, agent: Agent): Promise<string> {
  const [response] = (await once(get({ port, host: '127.0.0.1', agent }), 'response')) as [IncomingMessage];
  return text(response);
}

test('the server closes connections without a request, the oldest first, to admit new ones', async () => {
  const port = await open(8);
  const sockets = await silent(port, 30);
  await expect.poll(() => remaining(sockets)).toBe(8);
  const agent = new Agent();
  expect(await ask(port, agent)).toBe('hello\n');
  await expect.poll(() => remaining(sockets)).toBe(7);
  expect(sockets.slice(-7).every(({ closed }) => !closed)).toBe(true);
});

test('the server keeps connections with a request in progress, and closes connections without a request before idle ones', async () => {
  let finish = (): void => {};
  const begun = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let count = 0;
  const port = await open(4, {
    handle: async (request, response) => {
      count++;
      if (request.url === '/slow') {
        await begun;
      }
      answerText(request, response, 200, 'hello');
    },
  });
  const agent = new Agent({ keepAlive: true });
  onTestFinished(() => agent.destroy());
  const slow = once(get({ port, host: '127.0.0.1', path: '/slow', agent }), 'response') as Promise<[IncomingMessage]>;
  await expect.poll(() => count).toBe(1);
  const first = await silent(port, 20);
  await expect.poll(() => remaining(first)).toBe(3);
  finish();
  const [response] = await slow;
  const { socket } = response;
  expect(await text(response)).toBe('hello\n');
  await silent(port, 3);
  await expect.poll(() => remaining(first)).toBe(0);
  expect(socket.closed).toBe(false);
});

test('unexpected addresses share a small number of connections and still get a response', async () => {
  const port = await open(512, { expects: () => false });
  const sockets = await silent(port, 40);
  await expect.poll(() => remaining(sockets)).toBe(16);
  expect(await ask(port, new Agent())).toBe('hello\n');
});

test('a server with TLS answers only clients with a certificate from the given authority, and closes other connections to make room', async () => {
  const store = readJavaKeyStore(await readFile(new URL('../../hadoop/golden/tls/keystore.jks', import.meta.url)), 'secret1');
  const [own] = store.keys;
  const key = toPem(privateKeyOf(own as ProtectedKey, 'secret1'), 'PRIVATE KEY');
  const certificate = toPem(own?.chain[0] as Buffer);
  const handle: JobPages['handle'] = async (request, response) => answerText(request, response, 200, 'hello');
  const tls = { key, certificate, clientAuthority: certificate };
  const web = await WebServer.open({ address: '127.0.0.1', site: { handle }, log: pino({ level: 'silent' }), mostConnections: 2, tls });
  onTestFinished(() => web.close());
  const known = { ca: certificate, checkServerIdentity: () => undefined, port: web.port, host: '127.0.0.1' };
  const hello = async (agent: TlsAgent): Promise<string> => {
    const [response] = (await once(getTls({ ...known, agent }), 'response')) as [IncomingMessage];
    return text(response);
  };
  await expect(hello(new TlsAgent())).rejects.toThrow();
  const idle = await silent(web.port, 5);
  await expect.poll(() => remaining(idle)).toBe(2);
  const agent = new TlsAgent({ key, cert: certificate, keepAlive: true });
  onTestFinished(() => agent.destroy());
  expect(await hello(agent)).toBe('hello\n');
  expect(await hello(agent)).toBe('hello\n');
  await expect.poll(() => remaining(idle)).toBe(1);
  // The connection whose request was answered is idle again, and is older than this one.
  await silent(web.port, 2);
  await expect.poll(() => remaining(idle)).toBe(0);
});
