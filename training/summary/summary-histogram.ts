import { doubleTensor, type TensorValue } from './event-file.ts';

export interface Histogram {
  /** The number of NaN and infinite values, which are not counted in any bucket. */
  readonly notFinite: number;
  /** Three numbers per bucket: left edge, right edge and count. */
  readonly buckets: Float64Array;
}

/**
 * Counts numbers in buckets of equal width from the smallest to the largest number, as TensorBoard does
 * (tensorboard/plugins/histogram/summary_v2.py). If all numbers are equal, the last bucket contains all of them. If there are no finite
 * numbers, all edges and counts are 0.
 */
export function histogramOf(numbers: ArrayLike<number>, buckets: number): Histogram {
  let [smallest, largest, notFinite] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
  for (let index = 0; index < numbers.length; index++) {
    const number = numbers[index] as number;
    if (Number.isFinite(number)) {
      smallest = number < smallest ? number : smallest;
      largest = number > largest ? number : largest;
    } else {
      notFinite++;
    }
  }
  const rows = new Float64Array(buckets * 3);
  if (notFinite === numbers.length) {
    return { notFinite, buckets: rows };
  }
  // The difference between two large numbers may be infinite, so both are halved first.
  const width = (largest / 2 - smallest / 2) / buckets;
  const last = buckets - 1;
  for (let bucket = 0; bucket <= last; bucket++) {
    rows[bucket * 3] = 2 * (smallest / 2 + bucket * width);
    rows[bucket * 3 + 1] = bucket === last ? largest : 2 * (smallest / 2 + (bucket + 1) * width);
  }
  rows[0] = smallest;
  for (let index = 0; index < numbers.length; index++) {
    const number = numbers[index] as number;
    if (Number.isFinite(number)) {
      const bucket = width === 0 ? last : Math.min(last, Math.floor((number / 2 - smallest / 2) / width));
      rows[bucket * 3 + 2] = (rows[bucket * 3 + 2] as number) + 1;
    }
  }
  return { notFinite, buckets: rows };
}

/** Encodes a histogram in the plugin's format: a matrix with the columns left edge, right edge and count. */
export function histogramValue(tag: string, { buckets }: Histogram): TensorValue {
  return { tag, plugin: 'histograms', content: new Uint8Array(0), tensor: doubleTensor([buckets.length / 3, 3], buckets) };
}
