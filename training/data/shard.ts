/** One rank's examples in one step: positions `from` to `to` (exclusive) in the epoch's order. */
export interface StepShard {
  readonly from: number;
  readonly to: number;
  /** The position after all ranks' examples, where the next step starts. */
  readonly next: number;
  /** Weight of this rank's gradient: the fraction of the step's examples that this rank has. */
  readonly weight: number;
}

/**
 * Returns one rank's examples in the next step, in which each rank uses `batchSize` examples. In the last step of an epoch, the ranks
 * divide the remaining examples evenly, so some ranks may get none.
 * @param position the number of examples that all ranks have used in this epoch.
 */
export function shardOfStep(position: number, size: number, batchSize: number, rank: number, worldSize: number): StepShard {
  const together = Math.min(batchSize * worldSize, size - position);
  const from = position + Math.floor((rank * together) / worldSize);
  const to = position + Math.floor(((rank + 1) * together) / worldSize);
  return { from, to, next: position + together, weight: together === 0 ? 0 : (to - from) / together };
}
