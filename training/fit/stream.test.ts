import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import { folder } from '../../contract/testing/folder.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { FakePieces, FakeStream, storedPieces } from '../data/frames/testing/pieces.ts';
import type { Dataset } from '../data/sources/dataset.ts';
import { frameDataset } from '../data/sources/frame-source.ts';
import { fitTogether, weightsOf } from '../testing/fit-world.ts';
import type { FitOptions } from './fit-options.ts';

const MICRO_BATCHES = [3, 4, 7];

function rowsOf(number: number): { x: Float64Array; y: Float64Array } {
  const x = Float64Array.from({ length: 5 }, (_, row) => Math.sin(5 * number + row));
  return { x, y: x.map((value) => 3 * value + 1) };
}

async function stream(asked?: () => Promise<unknown>): Promise<Dataset<unknown>> {
  const batches = MICRO_BATCHES.map(async (number) => {
    const pieces = new FakePieces(await storedPieces([[rowsOf(number)]]), { seed: null });
    return { query: 'query', number, pieces };
  });
  return frameDataset('train', new FakeStream(await Promise.all(batches), asked), { x: ['x'], y: ['y'] }).batch(2);
}

function model(): tf.LayersModel {
  const created = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1], kernelInitializer: 'ones' })] });
  created.compile({ optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError' });
  return created;
}

test('fit trains on each micro-batch in an epoch of its own, and asks for the next one when a checkpoint of the last one is stored', async () => {
  const dir = await folder();
  const store = new CheckpointStore(new FileStorage(), fileUri(dir));
  const newest: (number | undefined)[] = [];
  const trained = model();
  const [history] = await fitTogether([trained], await stream(async () => newest.push((await store.steps())[0])), {}, { folder: dir });
  expect(history).toMatchObject({ epoch: [0, 1, 2], steps: 9, endedEarly: null });
  expect(newest).toEqual([undefined, 3, 6, 9]);
  expect((await store.openCheckpoint(9)).position).toMatchObject({ final: true, data: { stream: { query: 'query', number: 8 } } });
  const expected = model();
  for (const { x, y } of MICRO_BATCHES.map(rowsOf)) {
    await expected.fit(tf.tensor2d([...x], [5, 1]), tf.tensor2d([...y], [5, 1]), { batchSize: 2, shuffle: false });
  }
  weightsOf(trained).forEach((weight, index) => {
    expect(weight).toBeCloseTo(weightsOf(expected)[index] as number, 5);
  });
});

test.each<readonly [string, FitOptions, string]>([
  ['without checkpoints', {}, 'all records of micro-batch 3 of the stream train have been read, but no checkpoint contains them'],
  ['with stepsPerEpoch', { stepsPerEpoch: 2 }, 'stepsPerEpoch does not apply to the feed train'],
])('%s, fit refuses a stream', async (_, options, message) => {
  await expect(fitTogether([model()], await stream(), options)).rejects.toThrow(message);
});

test('a stream cannot be validation data', async () => {
  const data = { x: tf.tensor2d([[1]]), y: tf.tensor2d([[1]]) };
  await expect(fitTogether([model()], data, { validationData: await stream() })).rejects.toThrow('can only be the training data');
});
