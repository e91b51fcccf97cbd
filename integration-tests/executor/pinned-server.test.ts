import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { Metadata, Server } from '@grpc/grpc-js';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { FeedServer } from '../../application-master/rpc/feed-server.ts';
import { listenPinned, type PinnedListener, type PinnedTlsOptions } from '../../application-master/rpc/pinned-server.ts';
import { createJobSecrets } from '../../client/job/job-secrets.ts';
import { CREDENTIALS } from '../../conf/job.ts';
import { formatAddress } from '../../platform/address.ts';
import { Secret } from '../../platform/secret.ts';
import { FEED_TOKEN_METADATA } from '../../protos/feed-protocol.ts';
import { PINNED_CHANNEL_OPTIONS, pinnedCredentials } from '../../protos/pinned-channel.ts';
import { addService, type ClientStream, clientConstructor, onMessage } from '../../protos/services.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';

const secrets = createJobSecrets(Date.now(), '{}');
const of = (name: string): Secret => secrets.get(name) ?? new Secret(Buffer.alloc(0));
const [certificate, privateKey] = [of(CREDENTIALS.certificate), of(CREDENTIALS.privateKey)];
const FeedClient = clientConstructor('Feed');
type ProducerStream = ClientStream<'ProducerMessage', 'FeedMessage'>;

async function listening(options: Partial<PinnedTlsOptions>): Promise<PinnedListener> {
  const server = new Server();
  addService(server, 'Feed', {
    Put: (stream) => {
      stream.on('error', () => {});
      onMessage(stream, ({ chunk }) => stream.write({ expected: chunk?.sequence, taken: 0, windowBytes: 0, over: false, readers: 0 }));
      stream.on('end', () => stream.end());
    },
  });
  const listener = await listenPinned(server, '127.0.0.1', { certificate, privateKey, clients: 'certificate', ...options });
  onTestFinished(() => {
    listener.close();
    server.forceShutdown();
  });
  return listener;
}

function dial(port: number, { key = privateKey, metadata = new Metadata() } = {}): ProducerStream {
  const pem = Buffer.from(certificate.reveal());
  const client = new FeedClient(
    formatAddress({ host: '127.0.0.1', port }),
    pinnedCredentials(pem, Buffer.from(key.reveal())),
    PINNED_CHANNEL_OPTIONS,
  );
  onTestFinished(() => client.close());
  const stream = client.Put(metadata);
  stream.on('error', () => {});
  return stream;
}

async function echoed(stream: ProducerStream, sequence: number): Promise<number | undefined> {
  const answer = new Promise<TonyMessages['FeedMessage']>((resolve) => onMessage(stream, resolve));
  stream.write({ chunk: { sequence, records: [] } });
  return (await answer).expected;
}

async function strangers(port: number, count: number): Promise<Socket[]> {
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

test('unauthenticated connections are limited and cannot prevent an executor from connecting', async () => {
  const { port } = await listening({ mostUnproven: 10, graceMs: 0 });
  const before = dial(port);
  expect(await echoed(before, 1)).toBe(1);
  const sockets = await strangers(port, 60);
  await expect.poll(() => sockets.filter(({ closed }) => closed).length).toBeGreaterThanOrEqual(50);
  expect(await echoed(dial(port), 2)).toBe(2);
  expect(await echoed(before, 3)).toBe(3);
});

test('the server closes a connection that does not authenticate in time', async () => {
  const { port } = await listening({ proofMs: 50 });
  const sockets = await strangers(port, 5);
  await Promise.all(sockets.map((socket) => (socket.closed ? null : once(socket, 'close'))));
  expect(sockets.every(({ destroyed }) => destroyed)).toBe(true);
});

test('the server keeps unauthenticated connections during their grace period when new ones arrive', async () => {
  const { port } = await listening({ mostUnproven: 3, graceMs: 60_000 });
  const first = await strangers(port, 3);
  const [late] = await strangers(port, 1);
  if (late !== undefined && !late.closed) {
    await once(late, 'close');
  }
  expect(first.map(({ closed }) => closed)).toEqual([false, false, false]);
});

test('the token authenticates a producer; the TLS handshake alone does not', async () => {
  const opened: string[] = [];
  const server = new FeedServer({
    certificate,
    privateKey,
    token: 'the-token',
    opened: ({ producer, send }) => {
      opened.push(producer);
      send({ expected: 1, taken: 0, windowBytes: 1, over: false, readers: 0 });
    },
    received: () => {},
    closed: () => {},
    log: pino({ level: 'silent' }),
    proofMs: 300,
  });
  const port = await server.listen('127.0.0.1');
  onTestFinished(() => server.close());
  const silent = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] });
  silent.on('error', () => {}).resume();
  const metadata = new Metadata();
  metadata.set(FEED_TOKEN_METADATA, 'the-token');
  const producer = dial(port, { metadata });
  producer.write({ opening: { feed: 'f', producer: 'p', first: 1, records: 0 } });
  expect(await once(producer, 'data')).toMatchObject([{ expected: 1 }]);
  // The unauthenticated connection has reached its time limit. The producer connected at the same time and stays connected.
  await once(silent, 'close');
  const ended = new Promise((resolve) => producer.once('end', () => resolve('ended')).once('error', resolve));
  producer.write({ chunk: { sequence: 1, records: [] } });
  expect(await Promise.race([ended, new Promise((resolve) => setImmediate(() => resolve('open')))])).toBe('open');
  expect(opened).toEqual(['p']);
});
