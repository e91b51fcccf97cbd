import { lookup } from 'node:dns/promises';
import net from 'node:net';
import { getSystemErrorName } from 'node:util';

/**
 * A port that is bound before it is announced. Its socket is bound but not listening, so a client that connects before the program listens
 * is refused and retries. A program that cannot inherit the socket (npm closes descriptors that it does not know, while holding the socket
 * itself) can still listen on the port: the kernel allows that while the inherited socket is only bound.
 */
export interface BoundPort {
  readonly port: number;
  readonly descriptor: number;
  /** Closes this process's descriptor of the socket; a program that has inherited the socket keeps it. */
  close(): void;
}

interface TcpHandle {
  readonly fd: number;
  getsockname(out: { port?: number }): number;
  close(): void;
}

/**
 * The internal function that Node's cluster module binds with: no public API binds without listening. A returned number is an error code.
 */
type CreateServerHandle = (address: string, port: number, family: 4 | 6) => TcpHandle | number;

/** Binds to the host's address, or to all interfaces if the host name resolves to none of this machine's addresses (behind NAT). */
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
