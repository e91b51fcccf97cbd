import { expect, test } from 'vitest';
import { convertModels } from '../local/keras-conversion.ts';

test('2,600 random models make the same predictions in Keras and in TensorFlow.js, or are refused', { timeout: 7_200_000 }, async () => {
  const seed = Math.floor(Math.random() * 1e9);
  const { toTfjs, toKeras } = await convertModels(seed, { keras: 1500, tfjs: 1100 });
  expect({ seed, different: [...toTfjs.different, ...toKeras.different] }).toEqual({ seed, different: [] });
});
