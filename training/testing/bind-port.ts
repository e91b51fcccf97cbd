import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

export interface BoundPort {
  readonly port: number;
  readonly fd: number;
  close(): void;
}

/** An internal Node.js handle. The public API provides neither a server's descriptor nor a socket that is bound but does not listen. */
interface Bound {
  readonly fd: number;
  getsockname(into: { port?: number }): void;
  close(): void;
}

/**
 * Binds a loopback port as the executor does, so a child process can inherit the socket. If `listening` is false, this function only
 * reserves the port: the operating system does not assign it to any other program, but a process that binds the port explicitly can listen
 * on it.
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
