import * as tf from '@tensorflow/tfjs';
import { afterEach, expect, test } from 'vitest';
import { predictBatch } from './predict-model.ts';

afterEach(() => {
  tf.disposeVariables();
});

test('inputs of another shape are refused with the name of the input, and inputs of the same size are reshaped', async () => {
  const layers = [tf.layers.flatten({ inputShape: [2, 2], name: 'image' }), tf.layers.dense({ units: 1, kernelInitializer: 'ones' })];
  const model = tf.sequential({ layers });
  expect(await predictBatch(tf, model, [[1, 2, 3, 4]])).toEqual([Float32Array.of(10)]);
  await expect(predictBatch(tf, model, [[1, 2, 3]])).rejects.toMatchObject({
    code: 'DATA_INVALID',
    message: 'the input image_input has the shape [3] for each example, but must have [2, 2]',
  });
});

test('numbers are inputs of one value', async () => {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1], kernelInitializer: 'ones' })] });
  expect(await predictBatch(tf, model, [3, 4])).toEqual([Float32Array.of(3), Float32Array.of(4)]);
});
