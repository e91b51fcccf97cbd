/**
 * Selects the next split of a worker. Each worker processes its own share (every `count`-th split) in order, then the unfinished splits of
 * other shares, whose workers may be slow or failed. Workers do not communicate: the output files show which splits are finished, and a
 * split that two workers compute is still written only once.
 */
export interface Position {
  readonly index: number;
  readonly count: number;
}

export interface NextSplit {
  readonly split: number;
  /**
   * `own`: in this worker's share. `free`: in the share of a worker that has not reached it. `contested`: another worker may be computing
   * it.
   */
  readonly kind: 'own' | 'free' | 'contested';
}

/**
 * @param splits the number of splits.
 * @param isDone whether the results of a split exist.
 * @returns null if all splits are finished.
 */
export function nextSplit(splits: number, isDone: (split: number) => boolean, { index, count }: Position): NextSplit | null {
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
    // An owner may be computing the first unfinished split of its share; it has not reached the later ones.
    if (begun.has(owner)) {
      free.push(split);
    } else {
      contested.push(split);
    }
    begun.add(owner);
  }
  // Spreads the workers, so that those that select at the same time select different splits.
  const pick = (from: readonly number[]) => from[Math.floor((((index % count) + 0.5) * from.length) / count)];
  const split = pick(free) ?? pick(contested);
  return split === undefined ? null : { split, kind: free.length > 0 ? 'free' : 'contested' };
}
