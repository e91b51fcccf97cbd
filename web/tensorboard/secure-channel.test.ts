import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { CLOSED_ADDRESS } from '../../hadoop/testing/closed-port.ts';
import { dialTensorBoard, serveTensorBoard } from './secure-channel.ts';

const ringKey = Buffer.alloc(32, 7);
const open: net.Server[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

async function serve(): Promise<{ port: number; refused: Promise<string> }> {
  let refuse: (message: string) => void = () => {};
  const refused = new Promise<string>((resolve) => {
    refuse = resolve;
  });
  const server = serveTensorBoard({ ringKey, onConnection: (socket) => socket.on('error', () => {}).end('hello'), onRefused: refuse });
  open.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port, refused };
}

test('a client with the key gets an encrypted connection with forward secrecy', async () => {
  const { port } = await serve();
  const socket = dialTensorBoard({ host: '127.0.0.1', port, ringKey });
  await once(socket, 'secureConnect');
  expect([socket.getProtocol(), socket.getEphemeralKeyInfo()]).toEqual(['TLSv1.3', expect.objectContaining({ type: expect.any(String) })]);
  const [data] = await once(socket, 'data');
  expect(String(data)).toBe('hello');
  await once(socket, 'close');
});

test('both sides reject a wrong key', async () => {
  const { port, refused } = await serve();
  const socket = dialTensorBoard({ host: '127.0.0.1', port, ringKey: Buffer.alloc(32, 8) });
  const [error] = await once(socket, 'error');
  expect(String(error)).toMatch(/alert/);
  expect(await refused).toMatch(/binder does not verify/);
});

test('the server rejects plain HTTP', async () => {
  const { port, refused } = await serve();
  const socket = net.connect({ host: '127.0.0.1', port });
  socket.write('GET / HTTP/1.1\r\n\r\n');
  socket.on('error', () => {});
  await refused;
  if (!socket.closed) {
    await once(socket, 'close');
  }
});

test('a connection to a port without a listener fails', async () => {
  const [error] = await once(dialTensorBoard({ ...CLOSED_ADDRESS, ringKey }), 'error');
  expect(error).toMatchObject({ code: 'ECONNREFUSED' });
});
