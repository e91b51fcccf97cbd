import { withTimeout } from '../../platform/async/deadline.ts';
import type { Peers } from './peers.ts';

/**
 * The interval, in ms, at which the ranks exchange a message while at least one of them works. Without these messages, the ranks that have
 * finished would treat the others as lost.
 */
const ROUND_MS = 10_000;

/** Waits until every rank has finished its work, without a time limit. If the workers step independently, waits only for this one. */
export async function waitForAll(peers: Peers, work: Promise<void>): Promise<void> {
  let isRunning = true;
  const own = work.finally(() => {
    isRunning = false;
  });
  // If `peers.sum` fails first, no code awaits `own`, so without this handler, a rejection would crash the process.
  own.catch(() => {});
  for (;;) {
    await withTimeout(own, ROUND_MS, () => {});
    const running = Float32Array.of(isRunning ? 1 : 0);
    await peers.sum(running);
    if (running[0] === 0) {
      return;
    }
  }
}
