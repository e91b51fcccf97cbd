import { TonyError } from '../../platform/errors.ts';

/** A peer to which this process connects, or whose connection it accepts. */
export interface Peer {
  readonly name: string;
  /** Tries until `signal` aborts, and reports why each attempt failed. */
  readonly connect: (signal: AbortSignal, onRefused: (reason: string) => void) => Promise<void>;
}

/**
 * Connects to all peers concurrently.
 * @param onRefused receives the reason of each failed attempt.
 * @param describe the message for the peers that are still missing after `limitMs`, each with its last reason; '' for none.
 * @throws TonyError RING_JOIN_FAILED after `limitMs`, or the first error of a peer.
 */
export async function connectAll(
  peers: readonly Peer[],
  limitMs: number,
  onRefused: ((reason: string) => void) | undefined,
  describe: (missing: readonly { readonly name: string; readonly reason: string }[]) => string,
): Promise<void> {
  const missing = new Map(peers.map(({ name }, index) => [index, { name, reason: '' }]));
  const giveUp = new AbortController();
  const timer = setTimeout(() => giveUp.abort(new TonyError('RING_JOIN_FAILED', describe([...missing.values()]))), limitMs);
  try {
    await Promise.all(
      peers.map(async ({ name, connect }, index) => {
        await connect(giveUp.signal, (reason) => {
          if (missing.has(index)) {
            missing.set(index, { name, reason });
          }
          onRefused?.(reason);
        });
        missing.delete(index);
      }),
    );
  } catch (error) {
    giveUp.abort(error);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
