import type { Ring } from './ring.ts';
import { gatherBytes } from './ring-bytes.ts';

/** The workers of a job, as whoever divides its data sees them. */
export interface Peers {
  readonly rank: number;
  readonly worldSize: number;
  /** false: each worker takes its steps alone, in its own time. */
  readonly stepsTogether: boolean;
  /** Replaces `numbers` by their sums over those who step together: all workers, or this one alone. */
  sum(numbers: Float32Array): Promise<void>;
  /** What each of those who step together has given, on each of them. */
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

/** A worker that takes its steps alone, and has its own share of the data. */
export function lonePeers(rank: number, worldSize: number): Peers {
  return { rank, worldSize, stepsTogether: false, sum: async () => {}, gather: async (bytes) => [bytes] };
}
