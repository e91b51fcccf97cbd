import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { FaultyProxy } from '../faulty-proxy.ts';
import { until } from '../until.ts';

let proxy: FaultyProxy;

beforeEach(async () => {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {});
    socket.pipe(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  proxy = await FaultyProxy.open({ host: '127.0.0.1', port: (server.address() as AddressInfo).port });
  return async () => {
    await proxy.close();
    server.close();
  };
});

interface Client {
  readonly socket: Socket;
  received: string;
  failure: string | undefined;
}

function dial(): Client {
  const socket = connect({ host: '127.0.0.1', port: proxy.port });
  const client: Client = { socket, received: '', failure: undefined };
  socket.setEncoding('utf8').on('data', (text: string) => {
    client.received += text;
  });
  socket.on('error', (error: NodeJS.ErrnoException) => {
    client.failure = error.code;
  });
  onTestFinished(() => void socket.destroy());
  return client;
}

test('the proxy forwards both directions, and the end after the last byte', async () => {
  const client = dial();
  client.socket.end('x'.repeat(1_000_000));
  await once(client.socket, 'close');
  expect(client.received).toHaveLength(1_000_000);
  await until(() => proxy.open === 0, { describe: 'the proxy has removed the link' });
});

test('cut resets open connections and accepts new ones', async () => {
  const client = dial();
  await until(() => proxy.open === 1, { describe: 'one link' });
  proxy.cut();
  await until(() => client.failure === 'ECONNRESET', { describe: 'a reset' });
  const again = dial();
  again.socket.write('hello');
  await until(() => again.received === 'hello', { describe: 'the echo' });
});

test('refuse resets new connections until restore', async () => {
  proxy.refuse();
  const client = dial();
  await until(() => client.failure === 'ECONNRESET', { describe: 'a reset' });
  proxy.restore();
  const again = dial();
  again.socket.write('hello');
  await until(() => again.received === 'hello', { describe: 'the echo' });
});

test('the proxy delivers held responses after restore, and drops them after cut', async () => {
  const client = dial();
  proxy.hold('answer');
  client.socket.write('one');
  await expect(until(() => client.received !== '', { timeoutMs: 300, describe: 'an answer despite hold' })).rejects.toThrow(
    'an answer despite hold',
  );
  proxy.restore();
  await until(() => client.received === 'one', { describe: 'the held answer' });
  proxy.hold('answer');
  client.socket.write('two');
  await until(() => client.socket.bytesWritten === 6, { describe: 'the request has been written' });
  proxy.cut();
  await until(() => client.failure === 'ECONNRESET', { describe: 'a reset' });
  expect(client.received).toBe('one');
});
