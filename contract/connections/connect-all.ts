import { TonyError } from '../../platform/errors.ts';

/** A peer that this process connects to, or accepts a connection from. */
export interface Peer {
  readonly name: string;
  /** Retries until the connection is open or `signal` aborts. Calls `onRefused` with the reason after each failed attempt. */
  readonly connect: (signal: AbortSignal, onRefused: (reason: string) => void) => Promise<void>;
}

/**
 * Connects to all peers at the same time.
 * @param onRefused is called with the reason after each failed attempt.
 * @param describe returns the error message for the peers that are not connected after `limitMs`. `reason` says why the last attempt to
 * connect to the peer failed, or is '' if no attempt has failed.
 * @throws TonyError RING_JOIN_FAILED after `limitMs`, or the first error that a peer's `connect` throws.
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
