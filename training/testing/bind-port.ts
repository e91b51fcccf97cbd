import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

export interface BoundPort {
  readonly port: number;
  readonly fd: number;
  close(): void;
}

/** Node offers the descriptor of a server, and a socket that is bound but does not listen, nowhere else. */
interface Bound {
  readonly fd: number;
  getsockname(into: { port?: number }): void;
  close(): void;
}

/**
 * What the executor does: binds a port of loopback, for its socket to be handed on. One that does not listen keeps the port for
 * another process of ours, which may bind it as well and listen there; nobody else is given it.
 */
export async function bindPort(listening: boolean): Promise<BoundPort> {
  if (listening) {
    const server = createServer().listen(0, '127.0.0.1') as Server & { _handle: { fd: number } };
    await once(server, 'listening');
    return { port: (server.address() as { port: number }).port, fd: server._handle.fd, close: () => server.close() };
  }
  const net = (await import('node:net')) as unknown as { _createServerHandle(address: string, port: number, family: 4): Bound };
  const handle = net._createServerHandle('127.0.0.1', 0, 4);
  const address: { port?: number } = {};
  handle.getsockname(address);
  return { port: address.port as number, fd: handle.fd, close: () => handle.close() };
}
