import net from 'node:net';
import { messageOf } from '../../platform/errors.ts';

const DIAL_MS = 5_000;

/** Returns the reason why the address does not accept a connection, or an empty string if it does. */
export function dial(host: string, port: number, timeoutMs = DIAL_MS): Promise<string> {
  return new Promise((resolve) => {
    const socket = net.connect({ host, port });
    const end = (reason: string): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(reason);
    };
    const timer = setTimeout(() => end(`${host}:${port} did not answer within ${timeoutMs / 1000} s`), timeoutMs);
    socket.on('connect', () => end('')).on('error', (error) => end(messageOf(error)));
  });
}
