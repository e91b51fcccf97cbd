import { connect } from 'node:net';
import { onTestFinished } from 'vitest';
import { listening } from './listening.ts';

/** Opens a proxy to port `target`. The proxy passes each chunk to `onChunk`, which may change the chunk. @returns the proxy's port. */
export async function spy(target: number, onChunk: (chunk: Buffer, fromDialer: boolean) => void): Promise<number> {
  const { server, address } = await listening();
  onTestFinished(() => void server.close());
  server.on('connection', (inner) => {
    const outer = connect(target, '127.0.0.1');
    onTestFinished(() => {
      inner.destroy();
      outer.destroy();
    });
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      from.on('data', (chunk: Buffer) => {
        onChunk(chunk, from === inner);
        to.write(chunk);
      });
      from.on('error', () => {});
      from.on('close', () => to.destroy());
    }
  });
  return address.port;
}
