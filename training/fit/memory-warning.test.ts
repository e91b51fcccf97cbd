import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { estimateMemory, estimateResumedMemory, type MemoryNeeds } from '../../contract/checkpoint/memory-estimate.ts';
import type { Report } from '../../contract/process/task-context.ts';
import { inspectModel } from '../model/compiled-model.ts';
import { captureState } from '../model/training-state.ts';
import { classifier, examples, fitTogether } from '../testing/fit-world.ts';
import { memoryWarning, sizesOf, slotsOf } from './fit.ts';

const MEBIBYTE = 1 << 20;
const EXECUTOR = 70;

/** The peak memory measured for programs that use the native backend and write checkpoints. All sizes are in MiB. */
test.each([
  [
    'cnn of examples/mnist, adam, batch size 256',
    { parameters: 18_378, elements: 15_386, batch: 256, slots: 2, world: 1, resident: 347, peak: 484 },
  ],
  [
    'cnn with 4 times the filters, adam, 128',
    { parameters: 227_082, elements: 59_162, batch: 128, slots: 2, world: 1, resident: 351, peak: 571 },
  ],
  ['784-2048-2048-10, adam, 64', { parameters: 5_824_522, elements: 4106, batch: 64, slots: 2, world: 1, resident: 389, peak: 721 }],
  ['784-4096-4096-10, adam, 64', { parameters: 20_037_642, elements: 8202, batch: 64, slots: 2, world: 1, resident: 445, peak: 1313 }],
  ['784-4096-4096-10, sgd, 64', { parameters: 20_037_642, elements: 8202, batch: 64, slots: 0, world: 1, resident: 450, peak: 830 }],
  [
    '784-4096-4096-10, adam, 64, two workers',
    { parameters: 20_037_642, elements: 8202, batch: 64, slots: 2, world: 2, resident: 444, peak: 1146 },
  ],
  [
    'cnn of examples/mnist, adam, 64, two workers',
    { parameters: 18_378, elements: 15_386, batch: 64, slots: 2, world: 2, resident: 352, peak: 430 },
  ],
])('the estimate for %s is within 11 % of the measured peak', (_, { parameters, elements, batch, slots, world, resident, peak }) => {
  const bytes = 4 * parameters;
  const { total } = estimateMemory({
    ...{ resident: resident * MEBIBYTE, weights: bytes, trainable: bytes, slots, activations: 4 * batch * elements },
    ...{ worldSize: world, writesCheckpoints: true },
  });
  const estimated = total / MEBIBYTE - EXECUTOR;
  expect(Math.abs(estimated - peak) / peak).toBeLessThan(0.11);
});

test('a warning appears only if the estimate exceeds the container, and states the numbers', () => {
  const needs: MemoryNeeds = {
    ...{ resident: 450 * MEBIBYTE, weights: 80 * MEBIBYTE, trainable: 80 * MEBIBYTE, slots: 2, activations: 10 * MEBIBYTE },
    ...{ worldSize: 2, writesCheckpoints: true },
  };
  const estimate = estimateMemory(needs);
  expect(estimate.total).toBe(1302 * MEBIBYTE);
  expect(memoryWarning(estimate, 1302)).toBeNull();
  expect(memoryWarning(estimate, 1024)).toBe(
    'training may need 1.3 GiB of memory, but the container has 1 GiB. The estimate consists of 450 MiB already in use, 640 MiB for ' +
      'gradients, optimizer and checkpoints, 30 MiB for the outputs of layers, and 182 MiB for the runtime. ' +
      'If YARN ends the container, raise `resources.memory` to 1536m, ' +
      'or reduce the batch size.',
  );
});

test('sizes come from the layers and the optimizer of the model', () => {
  const model = tf.sequential();
  model.add(tf.layers.dense({ inputShape: [10], units: 4 }));
  model.add(tf.layers.dense({ units: 2, trainable: false }));
  model.compile({ optimizer: tf.train.adam(), loss: 'meanSquaredError' });
  expect(sizesOf(inspectModel(tf, model), 8)).toEqual({ weights: 4 * (44 + 10), trainable: 4 * 44, activations: 4 * 8 * (4 + 2) });
  expect(slotsOf(tf.train.adam())).toBe(2);
  expect(slotsOf(tf.train.momentum(0.1, 0.9))).toBe(1);
  expect(slotsOf(tf.train.sgd(0.1))).toBe(0);
});

test.each([
  ['in a small container, rank 0 warns once before the first step', 10, 1],
  ['in a large container, no rank warns', 1_000_000, 0],
])('%s', async (_, memoryMb, warnings) => {
  const reports: Report[][] = [[], []];
  const models = [classifier(tf.train.adam()), classifier(tf.train.adam())];
  await fitTogether(models, examples(8), { batchSize: 4, epochs: 1 }, { memoryMb, reports });
  const found = reports.map((own) => own.filter((report) => report.type === 'notice' && report.about === 'memory'));
  expect(found.map(({ length }) => length)).toEqual([warnings, 0]);
  expect(reports[0]?.findIndex(({ type }) => type === 'notice')).toBe(warnings === 0 ? -1 : 0);
});

test.each([
  ['adam', () => tf.train.adam()],
  ['momentum', () => tf.train.momentum(0.1, 0.9)],
  ['sgd', () => tf.train.sgd(0.1)],
] as const)('a checkpoint of a model that %s trains shows the same sizes as the model', async (_, create) => {
  const optimizer = create();
  const layers = [tf.layers.dense({ inputShape: [784], units: 64 }), tf.layers.batchNormalization(), tf.layers.dense({ units: 10 })];
  const model = tf.sequential({ layers });
  model.compile({ optimizer, loss: 'meanSquaredError' });
  await model.fit(tf.zeros([2, 784]), tf.zeros([2, 10]), { verbose: 0 });
  const inspected = inspectModel(tf, model);
  const tensors = (await captureState(tf, inspected)).map(({ name, bytes }) => ({ name, bytes: bytes.length }));
  const sizes = sizesOf(inspected, 0);
  const needs = { ...sizes, resident: 340 * MEBIBYTE + sizes.weights, slots: slotsOf(optimizer), worldSize: 2, writesCheckpoints: true };
  // Without slots, a checkpoint does not show which weights are trained.
  const { total } = estimateResumedMemory({ tensors }, 2) ?? { total: 0 };
  expect(Math.abs(total / estimateMemory(needs).total - 1)).toBeLessThan(0.001);
});
