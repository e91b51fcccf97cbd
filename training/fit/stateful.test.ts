import * as tf from '@tensorflow/tfjs';
import { beforeAll, expect, test } from 'vitest';
import type { TrainingData } from '../data/data.ts';
import type { FitData } from '../data/fit-data.ts';
import { fromArray } from '../data/sources/sources.ts';
import { predictBatch } from '../inference/predict-model.ts';
import { fitTogether, weightsOf } from '../testing/fit-world.ts';
import type { FitOptions } from './fit-options.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

function statefulModel(): tf.LayersModel {
  const kernel = { kernelInitializer: tf.initializers.glorotUniform({ seed: 1 }) };
  const recurrent = { recurrentInitializer: tf.initializers.glorotUniform({ seed: 2 }) };
  const lstm = tf.layers.lstm({ units: 2, stateful: true, batchInputShape: [4, 3, 1], ...kernel, ...recurrent });
  const model = tf.sequential({ layers: [lstm, tf.layers.dense({ units: 1, ...kernel })] });
  model.compile({ optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError' });
  return model;
}

function rows(count: number): TrainingData & { readonly x: tf.Tensor; readonly y: tf.Tensor } {
  return { x: tf.linspace(0, 1, count * 3).reshape([count, 3, 1]), y: tf.linspace(1, 0, count).reshape([count, 1]) };
}

const datasetOf = (count: number) => fromArray(Array.from({ length: count }, (_, at) => ({ xs: [[at], [at], [at]], ys: [at] })));

async function train(data: FitData, options: FitOptions, ranks = 1): Promise<void> {
  const models = Array.from({ length: ranks }, statefulModel);
  await fitTogether(models, data as TrainingData, { batchSize: 4, shuffle: false, ...options }, {});
}

const RULE = 'a stateful model needs a number of examples that is divisible by the batch size 4';

test('a stateful model trains like model.fit on full batches', async () => {
  const [ours, theirs] = [statefulModel(), statefulModel()];
  await fitTogether([ours], rows(12), { batchSize: 4, shuffle: false, epochs: 2 }, {});
  await theirs.fit(rows(12).x, rows(12).y, { batchSize: 4, shuffle: false, epochs: 2, verbose: 0 });
  for (const [index, weight] of weightsOf(ours).entries()) {
    expect(weight).toBeCloseTo(weightsOf(theirs)[index] as number, 5);
  }
});

test('a stateful model rejects a remainder before the first step if the number of examples is known', async () => {
  let steps = 0;
  const callbacks = { onBatchBegin: () => void steps++ };
  await expect(train(rows(10), { callbacks })).rejects.toMatchObject({
    ...{ code: 'DATA_INVALID', message: `${RULE}, but the data has 10`, hint: 'Omit the last 2 examples.' },
  });
  await expect(train(rows(12), { callbacks }, 2)).rejects.toThrow(`${RULE} times the number of workers (2), but the data has 12`);
  await expect(train(rows(8), { callbacks, validationData: rows(6) })).rejects.toThrow(`${RULE}, but the validation data has 6`);
  await expect(train(rows(8), { callbacks, validationSplit: 0.3 })).rejects.toThrow(`${RULE}, but the data has 5`);
  await expect(train(rows(8), { callbacks, batchSize: 8 })).rejects.toThrow('batchSize is 8, but the model is stateful');
  await expect(train(datasetOf(8), { callbacks, batchSize: 8 })).rejects.toThrow('batchSize is 8, but the model is stateful');
  await expect(train(rows(8), { callbacks, validationData: rows(8), validationBatchSize: 2 })).rejects.toThrow(
    'the batch size of the validation is 2, but the model is stateful',
  );
  expect(steps).toBe(0);
});

test('a stateful model rejects a remainder of a dataset at its batch', async () => {
  await expect(train(datasetOf(10), {})).rejects.toMatchObject({
    ...{ code: 'DATA_INVALID', message: `${RULE}, but a batch has 2 examples`, hint: expect.stringContaining('dropRemainder') },
  });
  await expect(train(rows(8), { validationData: datasetOf(6) })).rejects.toThrow(`${RULE}, but a batch has 2 examples`);
  await train(datasetOf(10).batch(4, { dropRemainder: true }), { batchSize: null as never });
});

test('predict rejects a batch with another number of elements', async () => {
  const model = statefulModel();
  const elements = Array.from({ length: 4 }, () => [[1], [2], [3]]);
  expect(await predictBatch(tf, model, elements)).toHaveLength(4);
  await expect(predictBatch(tf, model, elements.slice(1))).rejects.toThrow(`${RULE}, but a batch has 3 examples`);
});
