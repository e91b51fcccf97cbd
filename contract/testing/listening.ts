import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** Creates a server that listens on a loopback port. */
export async function listening(): Promise<{
  readonly server: Server;
  readonly address: { readonly host: string; readonly port: number };
}> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, address: { host: '127.0.0.1', port: (server.address() as { port: number }).port } };
}
