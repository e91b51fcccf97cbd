import { TonyError } from '../../platform/errors.ts';

/** Numbers for `allReduce` and `broadcast`, which replace them with the results. */
export type CollectiveNumbers = Float32Array | number[];

export function isNumbers(values: unknown): values is CollectiveNumbers {
  return (
    values instanceof Float32Array || (Array.isArray(values) && values.length > 0 && values.every((value) => typeof value === 'number'))
  );
}

/**
 * Calls `exchange` with the numbers as a vector, and replaces the numbers with the results.
 * @throws TonyError USAGE if `numbers` is neither a Float32Array nor an array of numbers.
 */
export async function inPlace(numbers: CollectiveNumbers, exchange: (vector: Float32Array) => Promise<void>): Promise<void> {
  if (numbers instanceof Float32Array) {
    await exchange(numbers);
    return;
  }
  if (!isNumbers(numbers)) {
    throw new TonyError('USAGE', 'expected a Float32Array or an array of numbers', { hint: 'Pass variables to broadcast().' });
  }
  const vector = Float32Array.from(numbers);
  await exchange(vector);
  for (const [index, value] of vector.entries()) {
    numbers[index] = value;
  }
}
