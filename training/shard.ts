/** Which examples of an epoch's order one rank takes in one step; `from` and `to` are places in that order. */
export interface StepShard {
  readonly from: number;
  readonly to: number;
  /** What all ranks take together: where the next step begins. */
  readonly next: number;
  /** This rank's share: its gradient counts by so much. */
  readonly weight: number;
}

/**
 * The next `batchSize` examples for each rank; near the end of the epoch what is left is dealt out evenly, so that shares differ by one
 * example at most and some ranks may get none.
 * @param position examples of this epoch that are already used, by all ranks together.
 */
export function shardOfStep(position: number, size: number, batchSize: number, rank: number, worldSize: number): StepShard {
  const together = Math.min(batchSize * worldSize, size - position);
  const from = position + Math.floor((rank * together) / worldSize);
  const to = position + Math.floor(((rank + 1) * together) / worldSize);
  return { from, to, next: position + together, weight: together === 0 ? 0 : (to - from) / together };
}

export function stepsPerEpoch(size: number, batchSize: number, worldSize: number): number {
  return Math.ceil(size / (batchSize * worldSize));
}
