import { createServer, type Server } from 'node:net';

const BACKLOG = 64;

/** A port that is bound before anybody hears of it, and whose socket a program can inherit. */
export interface ListeningPort {
  readonly port: number;
  readonly descriptor: number;
  /** Gives up this process's share of the socket; a program that has inherited it keeps it. */
  close(): void;
}

/** Listens at the host's address, or at all of the machine's where that name is not one of them (behind address translation). */
export async function listenOnFreePort(host: string): Promise<ListeningPort> {
  // Who dials before the program has the socket is turned away, and tries again.
  const server = createServer((socket) => socket.destroy());
  try {
    await listen(server, host);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EADDRNOTAVAIL' && code !== 'ENOTFOUND' && code !== 'EAI_AGAIN') throw error;
    await listen(server, undefined);
  }
  server.unref();
  const address = server.address();
  // Node offers the descriptor nowhere else.
  const descriptor = (server as Server & { _handle?: { fd: number } })._handle?.fd ?? -1;
  if (address === null || typeof address === 'string' || descriptor < 0) {
    server.close();
    throw new Error('the listening socket has no descriptor');
  }
  return { port: address.port, descriptor, close: () => void server.close() };
}

function listen(server: Server, host: string | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ ...(host !== undefined && { host }), port: 0, backlog: BACKLOG }, () => {
      server.removeListener('error', reject);
      resolve();
    });
  });
}
