import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { anySignal } from '../../platform/async/any-signal.ts';
import type { SessionEnd } from '../../protos/session-protocol.ts';
import { type SessionStream, writeTo } from '../../protos/session-stream.ts';
import { type ListeningSocket, listeningSockets } from './listening-socket.ts';
import type { SessionRun } from './session-run.ts';

const CONNECT_MS = 10_000;

/** Connects a session to a port on which one of the task's processes listens. Refuses all other ports and hosts. */
export async function servePort(stream: SessionStream, port: number, { trees, task, signal }: SessionRun): Promise<SessionEnd> {
  const sockets = listeningSockets([...trees].flatMap((tree) => tree.members()));
  const socket = await connectTo(sockets.find((each) => each.port === port) ?? null, signal);
  if (typeof socket === 'string') {
    const why = sockets.some((each) => each.port === port)
      ? `The connection to port ${port} failed: ${socket}.`
      : unknownPort(task, port, sockets);
    return { reason: signal.aborted ? String(signal.reason) : why, code: 0, signal: '' };
  }
  const abort = (): void => void socket.destroy();
  signal.addEventListener('abort', abort);
  try {
    await stream.send({ opened: { terminal: false } });
    stream.receive(async ({ data, endOfData }) => {
      if (data) {
        await writeTo(socket, data.bytes);
      } else if (endOfData) {
        socket.end();
      }
    });
    const closed = once(socket, 'close').catch(() => {});
    void stream.closed.then(abort);
    await stream.sendAll('OUTPUT', socket);
    // The client may still be sending data.
    await closed;
    return { reason: signal.aborted ? String(signal.reason) : '', code: 0, signal: '' };
  } finally {
    signal.removeEventListener('abort', abort);
    socket.destroy();
  }
}

/** Returns a connection, or the reason why no connection is possible. */
async function connectTo(target: ListeningSocket | null, signal: AbortSignal): Promise<Socket | string> {
  if (target === null) {
    return 'no such port';
  }
  const socket = createConnection({ host: target.host, port: target.port, allowHalfOpen: true });
  socket.on('error', () => {});
  try {
    await once(socket, 'connect', { signal: anySignal([signal, AbortSignal.timeout(CONNECT_MS)]) });
    return socket;
  } catch (error) {
    socket.destroy();
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

function unknownPort(task: string, port: number, sockets: readonly ListeningSocket[]): string {
  const ports = [...new Set(sockets.map((each) => each.port))].sort((a, b) => a - b);
  const known = ports.length === 0 ? 'The task listens on no port.' : `The task listens on: ${ports.join(', ')}.`;
  return `No process of ${task} listens on port ${port}. ${known}`;
}
