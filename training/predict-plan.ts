/**
 * Which split a worker takes next. Each has a share (every `count`-th split) that it goes through from the front; who is through takes what is
 * missing of the others' shares, for their workers may be slow, or dead. Nobody asks anybody: what is done is seen by the files that are there,
 * and a split that two compute at the same time is there once all the same.
 */
export interface Position {
  readonly index: number;
  readonly count: number;
}

export interface NextSplit {
  readonly split: number;
  /** `own`: of this worker's share. `free`: of another's, who is not there yet. `contested`: another one may be computing it now. */
  readonly kind: 'own' | 'free' | 'contested';
}

/**
 * @param splits how many there are.
 * @param isDone whether the results of a split are there.
 * @returns null when all are.
 */
export function nextSplit(splits: number, isDone: (split: number) => boolean, { index, count }: Position): NextSplit | null {
  const free: number[] = [];
  const contested: number[] = [];
  const begun = new Set<number>();
  for (let split = 0; split < splits; split++) {
    if (isDone(split)) continue;
    const owner = split % count;
    if (owner === index) return { split, kind: 'own' };
    // The first that an owner has not done is the one that it is at.
    if (begun.has(owner)) free.push(split);
    else contested.push(split);
    begun.add(owner);
  }
  // Those who look at the same time are to take different ones.
  const pick = (from: readonly number[]) => from[Math.floor((((index % count) + 0.5) * from.length) / count)];
  const split = pick(free) ?? pick(contested);
  return split === undefined ? null : { split, kind: free.length > 0 ? 'free' : 'contested' };
}
