import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { FitOptions } from '../fit/fit-options.ts';
import { fitTogether, weightsOf } from '../testing/fit-world.ts';
import type { FitData } from './fit-data.ts';

function line(): tf.Sequential {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [2], kernelInitializer: 'ones' })] });
  model.compile({ optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError' });
  return model;
}

function twoInputs(): tf.LayersModel {
  const [first, second] = [tf.input({ shape: [2], name: 'first' }), tf.input({ shape: [1], name: 'second' })];
  const both = tf.layers.concatenate().apply([first, second]) as tf.SymbolicTensor;
  const output = tf.layers.dense({ units: 1, kernelInitializer: 'ones' }).apply(both) as tf.SymbolicTensor;
  const model = tf.model({ inputs: [first, second], outputs: output });
  model.compile({ optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError' });
  return model;
}

const rows = [
  [1, 2],
  [3, 4],
  [5, 7],
  [0, 1],
];
const x = tf.tensor2d(rows);
const y = tf.tensor2d([1, 2, 0, 3], [4, 1]);
const options: FitOptions = { batchSize: 2, shuffle: false };

async function trained(data: FitData, own: FitOptions = {}, make: () => tf.LayersModel = line): Promise<number[]> {
  const model = make();
  await fitTogether([model], data, { ...options, ...own });
  return weightsOf(model);
}

describe('the forms of data that model.fit accepts', () => {
  test('fit accepts all forms of data that model.fit accepts, with the same result', async () => {
    const theirs = line();
    await theirs.fit(x, y, { batchSize: 2, shuffle: false, verbose: 0 });
    const expected = weightsOf(theirs);
    const forms: FitData[] = [
      { x, y },
      [x, y],
      { x: rows, y: [[1], [2], [0], [3]] },
      { x: rows.map((row) => Float32Array.from(row)) as unknown as number[][], y: Float64Array.of(1, 2, 0, 3) },
      { x: { values: Float32Array.from(rows.flat()), shape: [4, 2] }, y: tf.tensor1d([1, 2, 0, 3]) },
      { x: [x], y: [y] },
    ];
    for (const form of forms) {
      const weights = await trained(form);
      expect(weights).toHaveLength(expected.length);
      weights.forEach((weight, index) => {
        expect(weight).toBeCloseTo(expected[index] as number, 5);
      });
    }
  });

  test('data may name its inputs in any order', async () => {
    const second = tf.tensor2d([1, 0, 2, 1], [4, 1]);
    const byName = await trained({ x: { second, first: x }, y }, {}, twoInputs);
    expect(byName).toEqual(await trained({ x: [x, second], y }, {}, twoInputs));
    await expect(trained({ x: { first: x }, y }, {}, twoInputs)).rejects.toThrow('x has first; the model expects first, second');
  });

  test('validation data and sample weights may be plain arrays', async () => {
    const weights = [1, 2, 0, 1];
    const expected = await trained({ x, y }, { sampleWeight: tf.tensor1d(weights) });
    expect(await trained({ x, y }, { sampleWeight: weights, validationData: [rows, [1, 2, 0, 3]] })).toEqual(expected);
    expect(await trained({ x, y, sampleWeight: Float32Array.from(weights) })).toEqual(expected);
  });
});

test('fit rejects any other data with an error that describes it and lists the accepted forms', async () => {
  const refused = async (data: unknown, message: string | RegExp) =>
    await expect(trained(data as FitData)).rejects.toMatchObject({ code: 'DATA_INVALID', message: expect.stringMatching(message) });
  await refused(x, 'fit received a tensor instead of inputs and targets');
  await refused(undefined, 'fit received undefined instead');
  await refused(
    (function* () {
      yield 1;
    })(),
    'fit received a generator instead',
  );
  await refused({ x }, 'the data has no y');
  await refused({ x: 'file.csv', y }, 'x is the string file.csv, but must be a tensor');
  await refused({ x: [[1, 2], [3]], y: [1, 2] }, 'x has an array of 1 where its first example has an array of 2');
  await refused({ x: [[1, 'a']], y: [1] }, 'x has the string a where its first example has a number');
  await refused({ x: { values: Float32Array.of(1, 2, 3), shape: [2, 2] }, y: [1, 2] }, /^x has 3 values; its shape \[2,2\] requires 4$/);
});
