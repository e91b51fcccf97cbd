import { once } from 'node:events';
import { request } from 'node:https';
import { connect } from 'node:net';
import type { PeerCertificate } from 'node:tls';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { createJobSecrets } from '../../client/job/job-secrets.ts';
import { CREDENTIALS } from '../../conf/job.ts';
import { feedToken } from '../../contract/partitions/feed-token.ts';
import { Secret } from '../../platform/secret.ts';
import { Door } from '../../task-executor/partitions/door.ts';

const secrets = createJobSecrets(Date.now(), '{}');
const of = (name: string): Secret => secrets.get(name) ?? new Secret(Buffer.alloc(0));
const [certificate, privateKey] = [of(CREDENTIALS.certificate), of(CREDENTIALS.privateKey)];

interface Answer {
  readonly status: number | string;
  readonly body: string;
}

async function open() {
  const received: string[] = [];
  const door = await Door.open({
    host: '127.0.0.1',
    certificate,
    privateKey,
    receive: async (feed, rank, index, body) => {
      for await (const chunk of body) {
        received.push(`${feed} ${rank} ${index}: ${chunk}`);
      }
      return feed !== 'unwanted';
    },
    answer: async () => 503,
    end: (feed) => received.push(`end ${feed}`),
    forward: async (name, body) => (body.length === 0 ? null : { head: Buffer.from(`{"answer":"${name}"}`), body: Buffer.alloc(0) }),
    log: pino({ level: 'silent' }),
  });
  onTestFinished(() => door.close());
  const ask = (method: string, path: string, body = '', token = feedToken(privateKey)): Promise<Answer> =>
    new Promise((resolve) => {
      const sent = request({
        host: '127.0.0.1',
        port: door.port,
        method,
        path,
        agent: false,
        ca: Buffer.from(certificate.reveal()),
        checkServerIdentity: (_: string, __: PeerCertificate) => undefined,
        headers: { authorization: `Bearer ${token}` },
      });
      sent.on('response', async (response) => {
        let text = '';
        for await (const chunk of response) {
          text += chunk;
        }
        resolve({ status: response.statusCode ?? 0, body: text });
      });
      sent.on('error', (error: NodeJS.ErrnoException) => resolve({ status: error.code ?? 'failed', body: '' }));
      sent.end(body);
    });
  return { door, received, ask };
}

test('the door receives pieces, ends requests and forwards questions of a source that sends the token', async () => {
  const { ask, received } = await open();
  expect(await ask('PUT', '/feeds/train/1/2', 'abc')).toEqual({ status: 200, body: '{}' });
  expect((await ask('PUT', '/feeds/unwanted/0/0', 'abc')).status).toBe(409);
  expect(await ask('POST', '/source/plan', '{}')).toEqual({ status: 200, body: '{"answer":"plan"}' });
  expect((await ask('POST', '/source/open')).status).toBe(503);
  expect((await ask('POST', '/requests/predict/arrow', 'abc')).status).toBe(503);
  expect((await ask('POST', '/requests/predict/end')).status).toBe(200);
  expect(received).toEqual(['train 1 2: abc', 'unwanted 0 0: abc', 'end predict']);
});

test('a request without the token, or for another path, has no effect', async () => {
  const { ask, received } = await open();
  expect((await ask('PUT', '/feeds/train/1/2', 'abc', 'wrong')).status).toBe(401);
  for (const [method, path] of [
    ['GET', '/feeds/train/1/2'],
    ['PUT', '/feeds/a%2Fb/1/2'],
    ['PUT', '/feeds/train/1/x'],
    ['POST', '/source/other'],
  ] as const) {
    expect((await ask(method, path)).status).toBe(404);
  }
  expect(received).toEqual([]);
});

test('connections without a token make room for a source', async () => {
  const { door, ask } = await open();
  const idle = Array.from({ length: 300 }, () => connect(door.port, '127.0.0.1'));
  onTestFinished(() => {
    for (const socket of idle) {
      socket.destroy();
    }
  });
  for (const socket of idle) {
    socket.on('error', () => {});
  }
  await Promise.all(idle.map((socket) => (socket.connecting ? Promise.race([once(socket, 'connect'), once(socket, 'close')]) : null)));
  await expect.poll(async () => (await ask('POST', '/source/plan', '{}')).status).toBe(200);
});
