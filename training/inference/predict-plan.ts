/**
 * A worker's position among all workers. Each worker first processes its own share (every `count`-th split) in order. It then processes
 * splits not yet finished by other workers, because these workers may be slow or may have failed. The workers do not communicate: the
 * output files show which splits are finished. If two workers compute the same split, only one result is stored.
 */
export interface Position {
  readonly index: number;
  readonly count: number;
}

export interface PlannedSplit {
  readonly split: number;
  /**
   * `own`: the split is in this worker's share. `free`: the split is in another worker's share, and that worker has not reached it.
   * `contested`: another worker may be computing the split.
   */
  readonly kind: 'own' | 'free' | 'contested';
}

/**
 * Selects the next split for a worker.
 * @param splits the number of splits.
 * @param isDone whether the results of a split exist.
 * @returns null if all splits are finished.
 */
export function nextSplit(splits: number, isDone: (split: number) => boolean, { index, count }: Position): PlannedSplit | null {
  const free: number[] = [];
  const contested: number[] = [];
  const begun = new Set<number>();
  for (let split = 0; split < splits; split++) {
    if (isDone(split)) {
      continue;
    }
    const owner = split % count;
    if (owner === index) {
      return { split, kind: 'own' };
    }
    // The owner processes its share in order, so it may be computing its first unfinished split, but not yet a later one.
    if (begun.has(owner)) {
      free.push(split);
    } else {
      contested.push(split);
    }
    begun.add(owner);
  }
  // Workers that select a split at the same time select different splits.
  const pick = (from: readonly number[]) => from[Math.floor((((index % count) + 0.5) * from.length) / count)];
  const split = pick(free) ?? pick(contested);
  return split === undefined ? null : { split, kind: free.length > 0 ? 'free' : 'contested' };
}
