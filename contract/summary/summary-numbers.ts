import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';

export type Numbers = tfjs.Tensor | readonly number[] | Float32Array | Float64Array | Int32Array | Uint8Array | Uint8ClampedArray;

export function isTensor(value: unknown): value is tfjs.Tensor {
  return typeof (value as { dataSync?: unknown } | null)?.dataSync === 'function';
}

/**
 * Returns the numbers of a tensor or an array. Reads tensors with `dataSync()`, because the program may dispose its tensors right after
 * the call (tf.tidy). `data()` is not faster on any training backend.
 */
export function numbersOf(tag: string, numbers: Numbers): ArrayLike<number> {
  if (isTensor(numbers)) {
    if (numbers.dtype !== 'float32' && numbers.dtype !== 'int32' && numbers.dtype !== 'bool') {
      throw new TonyError('SUMMARY_INVALID', `the tensor for ${tag} holds ${numbers.dtype}, not numbers`);
    }
    return numbers.dataSync();
  }
  if (
    Array.isArray(numbers)
      ? numbers.every((number) => typeof number === 'number')
      : ArrayBuffer.isView(numbers) && !(numbers instanceof DataView)
  ) {
    return numbers;
  }
  throw new TonyError('SUMMARY_INVALID', `the value for ${tag} is ${describe(numbers)}, not a tensor or an array of numbers`);
}

export function describe(value: unknown): string {
  return value === ''
    ? 'empty'
    : typeof value === 'object' && value !== null
      ? Array.isArray(value)
        ? 'an array'
        : 'an object'
      : String(value);
}
