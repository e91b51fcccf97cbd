/**
 * Creates a random number generator (sfc32 by Chris Doty-Humphrey, PractRand, seeded by splitmix32).
 * @param seeds numbers that identify a position in training, such as a seed, a step and a rank. A resumed run draws the same numbers for
 *   the same position, so checkpoints need not store the generator's state.
 */
export function createRandom(...seeds: readonly number[]): () => number {
  let mixed = 0x9e3779b9;
  const next = () => {
    mixed = (mixed + 0x9e3779b9) | 0;
    let value = mixed ^ (mixed >>> 16);
    value = Math.imul(value, 0x21f0aaad);
    value ^= value >>> 15;
    value = Math.imul(value, 0x735a2d97);
    return value ^ (value >>> 15);
  };
  for (const seed of seeds) {
    mixed ^= seed | 0;
    mixed = next() ^ Math.floor(seed / 2 ** 32);
  }
  let [a, b, c, counter] = [next(), next(), next(), 1];
  const draw = () => {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    c |= 0;
    return sum >>> 0;
  };
  for (let round = 0; round < 12; round++) {
    draw();
  }
  return () => draw() / 2 ** 32;
}

/** Returns the numbers 0 to size-1 in random order. The same seeds always give the same order. The last seed is usually the epoch. */
export function shuffledOrder(size: number, ...seeds: readonly number[]): Uint32Array {
  const order = Uint32Array.from({ length: size }, (_, index) => index);
  const random = createRandom(...seeds);
  for (let index = size - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1));
    const value = order[index] as number;
    order[index] = order[other] as number;
    order[other] = value;
  }
  return order;
}

/**
 * Replaces Math.random with `random` while `work` runs, because TensorFlow.js uses Math.random for dropout masks and other operations.
 * `work` is synchronous, so the replacement does not affect other code.
 */
export function withRandom<Result>(random: () => number, work: () => Result): Result {
  const original = Math.random;
  Math.random = random;
  try {
    return work();
  } finally {
    Math.random = original;
  }
}
