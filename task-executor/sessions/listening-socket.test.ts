import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { listeningSockets, parseListeningSockets } from './serve-session.ts';

async function listenOn(host: string): Promise<number> {
  const server = createServer();
  onTestFinished(() => void server.close());
  server.listen(0, host);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

test('finds the sockets on which a process listens, with the address to connect to', async () => {
  const [one, all] = [await listenOn('127.0.0.2'), await listenOn('0.0.0.0')];
  const found = listeningSockets([process.pid]);
  expect(found.find(({ port }) => port === one)?.host).toBe('127.0.0.2');
  expect(found.find(({ port }) => port === all)?.host).toBe('127.0.0.1');
});

test('ignores the sockets of other processes', async () => {
  const port = await listenOn('127.0.0.1');
  expect(listeningSockets([process.ppid]).filter((each) => each.port === port)).toEqual([]);
});

test('reads IPv6 addresses, and skips sockets that do not listen', () => {
  const text = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1
   1: B80D01200000000067452301EFCDAB89:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1
   2: 00000000000000000000000001000000:0051 00000000000000000000000001000000:9999 01 00000000:00000000 00:00000000 00000000     0        0 13 1
`;
  expect(parseListeningSockets(text)).toEqual([
    { host: '::1', port: 8080, inode: '11' },
    { host: '2001:db8:0:0:123:4567:89ab:cdef', port: 80, inode: '12' },
  ]);
});
