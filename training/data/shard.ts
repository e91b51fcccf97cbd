/** One rank's examples in one step: positions `from` to `to` (exclusive) in the order of the epoch. */
export interface StepShard {
  readonly from: number;
  readonly to: number;
  /** The position after the examples of all ranks, where the next step starts. */
  readonly next: number;
  /** The weight of this rank's gradient: the rank's fraction of the step's examples. */
  readonly weight: number;
}

/**
 * Assigns the next `batchSize` examples to each rank. Near the end of the epoch, divides the remaining examples evenly: shares differ by at
 * most one example, and some ranks may get none.
 * @param position the number of examples of this epoch that all ranks have used.
 */
export function shardOfStep(position: number, size: number, batchSize: number, rank: number, worldSize: number): StepShard {
  const together = Math.min(batchSize * worldSize, size - position);
  const from = position + Math.floor((rank * together) / worldSize);
  const to = position + Math.floor(((rank + 1) * together) / worldSize);
  return { from, to, next: position + together, weight: together === 0 ? 0 : (to - from) / together };
}
