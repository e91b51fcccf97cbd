import { expect, test } from 'vitest';
import { convertModels } from './keras-conversion.ts';

/** Layers without an equivalent in the other library, and models that no library may convert. */
const REFUSED = ['CenterCrop', 'ConvLSTM2D', 'Odd', 'own_parts', 'SpatialDropout1D', 'StackedRNN', 'ThresholdedReLU'];

test('each generated model of Keras or TensorFlow.js makes the same predictions in the other library, or is refused', {
  timeout: 900_000,
}, async () => {
  const { toTfjs, toKeras } = await convertModels(20_261_128, { keras: 200, tfjs: 160 });
  expect(toTfjs.different).toEqual([]);
  expect(toKeras.different).toEqual([]);
  expect(toTfjs.equal).toMatchObject({ concatenations: 24, products: 14, shared_axes: 17 });
  expect(toTfjs.equal.own_parts).toBeUndefined();
  for (const { equal, refused } of [toTfjs, toKeras]) {
    const layers = new Set([...Object.keys(equal), ...Object.keys(refused)]);
    expect([...layers].filter((layer) => equal[layer] === undefined && !REFUSED.includes(layer))).toEqual([]);
    expect(layers.size).toBeGreaterThan(50);
  }
});
