import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { dial } from './probe-node.ts';

test('a port accepts connections while its listener is open, and refuses them after the listener has closed', async () => {
  const listener = net.createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  expect(await dial('127.0.0.1', port)).toBe('');
  listener.close();
  await once(listener, 'close');
  expect(await dial('127.0.0.1', port)).toBe(`connect ECONNREFUSED 127.0.0.1:${port}`);
});
