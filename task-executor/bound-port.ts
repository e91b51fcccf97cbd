import { lookup } from 'node:dns/promises';
import net from 'node:net';
import { getSystemErrorName } from 'node:util';

/**
 * A port that is taken before anybody hears of it. Its socket is bound and does not listen: who dials before the program does is refused
 * and tries again; and a program that could not inherit the socket (npm closes what it does not know, and holds it itself) can still listen
 * at the port, as the kernel allows that beside a socket that is only bound.
 */
export interface BoundPort {
  readonly port: number;
  readonly descriptor: number;
  /** Gives up this process's share of the socket; a program that has inherited it keeps it. */
  close(): void;
}

interface TcpHandle {
  readonly fd: number;
  getsockname(out: { port?: number }): number;
  close(): void;
}

/** What Node's own cluster module binds with: no public interface can bind without listening. A number is an error's. */
type CreateServerHandle = (address: string, port: number, family: 4 | 6) => TcpHandle | number;

/** At the host's address, or at all of the machine's where that name is not one of them (behind address translation). */
export async function bindFreePort(host: string): Promise<BoundPort> {
  const found = await lookup(host).catch(() => null);
  const handle = (found && bind(found.address, found.family === 6 ? 6 : 4)) ?? bind('0.0.0.0', 4);
  if (handle === null) throw new Error(`no port of ${host} could be bound`);
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
