import { lookup } from 'node:dns/promises';
import net from 'node:net';
import { getSystemErrorName } from 'node:util';

/**
 * A port that is bound before its number is sent to other tasks. The socket does not listen yet, so early connections are refused and the
 * clients retry. The program inherits the socket. If the program does not get the socket, for example because npm does not pass on the
 * descriptor, the program can bind the port itself. Linux permits a second bind as long as the first socket does not listen.
 */
export interface BoundPort {
  readonly port: number;
  readonly descriptor: number;
  /** Closes the socket in this process. A program that has inherited the socket has its own descriptor. */
  close(): void;
}

interface TcpHandle {
  readonly fd: number;
  getsockname(out: { port?: number }): number;
  close(): void;
}

/**
 * An internal Node.js function, which Node's cluster module also uses. It is needed because no public API binds a socket without listening
 * on it. If its result is a number, the number is an error code.
 */
type CreateServerHandle = (address: string, port: number, family: 4 | 6) => TcpHandle | number;

/** Binds a free port on the host's address, or on all interfaces if this machine does not have that address, for example behind NAT. */
export async function bindFreePort(host: string): Promise<BoundPort> {
  const found = await lookup(host).catch(() => null);
  const handle = (found && bind(found.address, found.family === 6 ? 6 : 4)) ?? bind('0.0.0.0', 4);
  if (handle === null) {
    throw new Error(`cannot bind a port at ${host}`);
  }
  const name: { port?: number } = {};
  const error = handle.getsockname(name);
  if (error !== 0 || name.port === undefined || handle.fd < 0) {
    handle.close();
    throw new Error(`the socket bound at ${host} has no port or no descriptor (${error === 0 ? handle.fd : getSystemErrorName(error)})`);
  }
  return { port: name.port, descriptor: handle.fd, close: () => handle.close() };
}

function bind(address: string, family: 4 | 6): TcpHandle | null {
  const create = (net as unknown as { _createServerHandle: CreateServerHandle })._createServerHandle;
  const handle = create(address, 0, family);
  return typeof handle === 'number' ? null : handle;
}
