import type { Ring } from './ring.ts';
import { gatherBytes } from './ring-bytes.ts';

/** Operations that the data pipeline uses to communicate with the job's other workers. */
export interface Peers {
  readonly rank: number;
  readonly worldSize: number;
  /** True if all workers take each step together. False if each worker steps independently. */
  readonly stepsTogether: boolean;
  /** Replaces `numbers` with their sums over all workers. Leaves `numbers` unchanged if the workers step independently. */
  sum(numbers: Float32Array): Promise<void>;
  /** Returns every worker's bytes in rank order. If the workers step independently, returns only this worker's bytes. */
  gather(bytes: Uint8Array): Promise<Uint8Array[]>;
}

export function peersOfRing(ring: Ring): Peers {
  return {
    rank: ring.rank,
    worldSize: ring.worldSize,
    stepsTogether: true,
    sum: (numbers) => ring.allReduce(numbers),
    gather: (bytes) => gatherBytes(ring, bytes),
  };
}

/** Returns the peers of a worker that steps independently. This worker reads only its own part of the data. */
export function lonePeers(rank: number, worldSize: number): Peers {
  return { rank, worldSize, stepsTogether: false, sum: async () => {}, gather: async (bytes) => [bytes] };
}
