import type * as tfjs from '@tensorflow/tfjs';
import type { Column } from '../../../contract/encoding/idx.ts';
import { isColumn } from './collate.ts';

/**
 * Converts all parts of an element to tensors, however deeply they are nested. Columns and arrays of numbers become numeric tensors. Lists
 * of strings or Buffers become string tensors.
 */
export function toTensors(tf: typeof tfjs, element: unknown): tfjs.TensorContainer {
  if (isColumn(element)) {
    return tensorOfColumn(tf, element);
  }
  if (Buffer.isBuffer(element) || typeof element !== 'object' || element === null) {
    return element as unknown as tfjs.TensorContainer;
  }
  if (element instanceof tf.Tensor) {
    return element;
  }
  if (ArrayBuffer.isView(element)) {
    return tensorOfColumn(tf, { values: element as Column['values'], shape: [(element as Column['values']).length] });
  }
  if (Array.isArray(element)) {
    const isText = element.every((item) => typeof item === 'string' || Buffer.isBuffer(item));
    if (isText) {
      return tf.tensor1d(element as string[], 'string');
    }
    if (element.every((item) => typeof item === 'number')) {
      return tf.tensor1d(element as number[]);
    }
    return element.map((item) => toTensors(tf, item));
  }
  return Object.fromEntries(Object.entries(element).map(([name, value]) => [name, toTensors(tf, value)]));
}

/** Converts a column to a tensor. An Int32Array becomes an int32 tensor, and all other values become float32. */
export function tensorOfColumn(tf: typeof tfjs, { values, shape }: Column): tfjs.Tensor {
  if (values instanceof Int32Array) {
    return tf.tensor(values, [...shape], 'int32');
  }
  return tf.tensor(values instanceof Float32Array ? values : new Float32Array(values), [...shape], 'float32');
}
