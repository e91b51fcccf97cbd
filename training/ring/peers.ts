import type { Ring } from './ring.ts';
import { gatherBytes } from './ring-bytes.ts';

/** The workers of a job, as the data pipeline sees them. */
export interface Peers {
  readonly rank: number;
  readonly worldSize: number;
  /** false if each worker takes its steps independently. */
  readonly stepsTogether: boolean;
  /** Replaces `numbers` by their sums over the workers that step together: all workers, or only this one. */
  sum(numbers: Float32Array): Promise<void>;
  /** Resolves on each worker with the bytes of all workers that step together. */
  gather(bytes: Uint8Array): Promise<Uint8Array[]>;
}

/** Workers that take each step together. */
export function peersOfRing(ring: Ring): Peers {
  return {
    rank: ring.rank,
    worldSize: ring.worldSize,
    stepsTogether: true,
    sum: (numbers) => ring.allReduce(numbers),
    gather: (bytes) => gatherBytes(ring, bytes),
  };
}

/** A worker that takes its steps independently, with its own share of the data. */
export function lonePeers(rank: number, worldSize: number): Peers {
  return { rank, worldSize, stepsTogether: false, sum: async () => {}, gather: async (bytes) => [bytes] };
}
