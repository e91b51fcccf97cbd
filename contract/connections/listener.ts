import { fstatSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { messageOf, TonyError } from '../../platform/errors.ts';

export interface Listener {
  /** File descriptor of the listening socket inherited by this process, or null if there is none. */
  readonly fd: number | null;
  readonly host: string;
  readonly port: number;
}

const MAX_EARLY = 16;

/** Connections that arrived at an early listener before its ring was formed. */
const held = new WeakMap<Server, Socket[]>();

/** Listens on a free port for a ring that the job forms later. Keeps incoming connections until `takeHeld` returns them. */
export async function openEarlyListener(host: string): Promise<{ readonly server: Server; readonly port: number }> {
  const server = await openListener({ fd: null, host, port: 0 });
  const early: Socket[] = [];
  held.set(server, early);
  server.on('connection', (socket: Socket) => {
    // Without an error listener, an error on a waiting connection would crash the process. The handshake on that connection fails later.
    socket.on('error', () => {});
    if (held.has(server) && early.length < MAX_EARLY) {
      early.push(socket);
    } else if (held.has(server)) {
      socket.destroy();
    }
  });
  return { server, port: (server.address() as { port: number }).port };
}

/** Returns the connections that have arrived so far. The caller must handle all later connections. */
export function takeHeld(server: Server): Socket[] {
  const early = held.get(server) ?? [];
  held.delete(server);
  return early;
}

/**
 * Listens on the inherited socket, or on the announced address if the socket is missing, for example because npm has closed the inherited
 * descriptors.
 */
export async function openListener(listener: Listener): Promise<Server> {
  if (listener.fd !== null && isSocket(listener.fd)) {
    try {
      return await listen(listener.port, { fd: listener.fd });
    } catch {
      // The file descriptor belongs to another socket.
    }
  }
  try {
    return await listen(listener.port, { host: listener.host, port: listener.port });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EADDRNOTAVAIL' && code !== 'ENOTFOUND') {
      throw new TonyError('RING_JOIN_FAILED', `cannot listen on ${listener.host}:${listener.port}: ${messageOf(error)}`, { cause: error });
    }
    // Behind NAT, the announced host name may resolve to another machine's address.
    return await listen(listener.port, { port: listener.port });
  }
}

function isSocket(fd: number): boolean {
  try {
    return fstatSync(fd).isSocket();
  } catch {
    return false;
  }
}

async function listen(port: number, where: { fd: number } | { host?: string; port: number }): Promise<Server> {
  const server = createServer({ noDelay: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, resolve);
  });
  const address = server.address();
  if (port !== 0 && (address === null || typeof address === 'string' || address.port !== port)) {
    server.close();
    throw new TonyError('RING_JOIN_FAILED', `the inherited socket is not listening on the announced port ${port}`);
  }
  return server;
}
