import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';

/** Starts a server on the loopback interface; answers its base URL. */
export async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The base URL of a port on which nothing listens any more. */
export async function nobody(server: Server): Promise<string> {
  const address = await listening(server);
  server.close();
  await once(server, 'close');
  return address;
}
