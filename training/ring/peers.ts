import type { Ring } from './ring.ts';
import { gatherBytes } from './ring-bytes.ts';

/** The workers of a job, as the data pipeline sees them. */
export interface Peers {
  readonly rank: number;
  readonly worldSize: number;
  /** True if all workers take each step together, false if each worker takes its own steps. */
  readonly stepsTogether: boolean;
  /** Replaces `numbers` with their sums over the workers that step together. A worker that steps independently keeps its numbers. */
  sum(numbers: Float32Array): Promise<void>;
  /** Resolves on each worker with the bytes of all workers that step together, by rank; otherwise with this worker's bytes alone. */
  gather(bytes: Uint8Array): Promise<Uint8Array[]>;
}

/** The view of workers that take each step together. */
export function peersOfRing(ring: Ring): Peers {
  return {
    rank: ring.rank,
    worldSize: ring.worldSize,
    stepsTogether: true,
    sum: (numbers) => ring.allReduce(numbers),
    gather: (bytes) => gatherBytes(ring, bytes),
  };
}

/** The view of a worker that takes its own steps on its own share of the data. */
export function lonePeers(rank: number, worldSize: number): Peers {
  return { rank, worldSize, stepsTogether: false, sum: async () => {}, gather: async (bytes) => [bytes] };
}
