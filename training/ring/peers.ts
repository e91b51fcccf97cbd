import type { Ring } from './ring.ts';
import { gatherBytes } from './ring-bytes.ts';

/** The workers of a job, as the data pipeline sees them. */
export interface Peers {
  readonly rank: number;
  readonly worldSize: number;
  /** True if all workers take each step together, false if each worker takes its own steps. */
  readonly stepsTogether: boolean;
  /**
   * Replaces `numbers` with their sums over all workers that step together. On a worker that steps independently, `numbers` stay unchanged.
   */
  sum(numbers: Float32Array): Promise<void>;
  /**
   * Resolves with the bytes of all workers that step together, by rank. On a worker that steps independently, resolves with its own bytes
   * only.
   */
  gather(bytes: Uint8Array): Promise<Uint8Array[]>;
}

/** Returns the peers of a worker whose ring takes each step together. */
export function peersOfRing(ring: Ring): Peers {
  return {
    rank: ring.rank,
    worldSize: ring.worldSize,
    stepsTogether: true,
    sum: (numbers) => ring.allReduce(numbers),
    gather: (bytes) => gatherBytes(ring, bytes),
  };
}

/** Returns the peers of a worker that steps independently, on its own share of the data. */
export function lonePeers(rank: number, worldSize: number): Peers {
  return { rank, worldSize, stepsTogether: false, sum: async () => {}, gather: async (bytes) => [bytes] };
}
