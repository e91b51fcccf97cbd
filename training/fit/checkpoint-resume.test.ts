import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import type { ShardDescription, StoredTensor } from '../../contract/checkpoint/checkpoint-format.ts';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import type { Report } from '../../contract/process/task-context.ts';
import { folder } from '../../contract/testing/folder.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { classifier, examples, fitTogether, weightsOf } from '../testing/fit-world.ts';
import type { FitOptions } from './fit-options.ts';

/** Four steps of 12 examples per epoch, independent of the number of workers. */
const EXAMPLES = 48;
const TOGETHER = 12;
const SEED = 5;

class Stopped extends Error {}

/** Trains fresh models on `workers` ranks up to the checkpoint at step `until`, or to the end. */
async function train(path: string, generation: number, workers: number, until: number | null): Promise<tf.LayersModel> {
  const models = Array.from({ length: workers }, (_, rank) => classifier(tf.train.adam(0.02), { seed: 100 * generation + rank }));
  if (generation === 1) {
    models[0]?.setWeights(classifier(tf.train.adam(0.02)).getWeights());
  }
  const reports: Report[][] = models.map(() => []);
  const onBatchEnd = async (_: number, { step }: { readonly step: number }) => {
    // The checkpoint of a step is written after the step's callbacks.
    if (until !== null && step === until + 1) {
      await expect.poll(() => reports[0]).toContainEqual({ type: 'checkpoint', step: until });
      throw new Stopped();
    }
  };
  const options: FitOptions = { epochs: 5, batchSize: TOGETHER / workers, seed: SEED, callbacks: { onBatchEnd } };
  const world = { folder: path, everySteps: 1, generation, reports };
  const training = fitTogether(models, examples(EXAMPLES), options, world);
  if (until === null) {
    await training;
  } else {
    await expect(training).rejects.toThrow(Stopped);
  }
  return models[0] as tf.LayersModel;
}

function expectClose(one: tf.LayersModel, other: tf.LayersModel): void {
  const expected = weightsOf(other);
  weightsOf(one).forEach((weight, index) => {
    expect(weight).toBeCloseTo(expected[index] as number, 5);
  });
}

test('training that resumes with other numbers of workers (1, 2, 3, 1) ends like an uninterrupted run', async () => {
  const straight = await train(await folder(), 1, 1, null);
  const path = await folder();
  await train(path, 1, 1, 3);
  await train(path, 2, 2, 10);
  await train(path, 3, 3, 13);
  expectClose(await train(path, 4, 1, null), straight);
});

test('training resumes with identical bits from one file, and from several with tensors in any order and in parts', async () => {
  const [whole, sharded] = [await folder(), await folder()];
  const storage = new FileStorage();
  await train(whole, 1, 1, 6);
  const found = await new CheckpointStore(storage, fileUri(whole)).read(6);
  const store = new CheckpointStore(storage, fileUri(sharded));
  const origin = { jobId: 'application_1_0001', generation: 1 };
  const pending = await store.beginSave(6, origin);
  const shards: ShardDescription[] = [];
  const parts = found.tensors.flatMap(halvesOf).reverse();
  for (let index = 0; index < 3; index++) {
    const own = parts.filter((_, at) => at % 3 === index);
    shards.push(await store.writeShard(pending, { index, count: 3 }, own));
  }
  await store.commit(pending, found.position, shards);
  const [one, other] = [await train(whole, 2, 2, null), await train(sharded, 2, 2, null)];
  expect(weightsOf(other)).toEqual(weightsOf(one));
});

test('a run that resumes names the recurrent layers whose states are lost', async () => {
  const data = { x: tf.ones([4, 3, 1]), y: tf.ones([4, 1]) };
  const [path, reports]: [string, Report[]] = [await folder(), []];
  for (const epochs of [1, 2]) {
    const model = tf.sequential();
    model.add(tf.layers.lstm({ units: 2, stateful: true, batchInputShape: [2, 3, 1], name: 'memory' }));
    model.add(tf.layers.dense({ units: 1 }));
    model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
    expect(JSON.stringify(reports)).not.toContain('the state of memory');
    await fitTogether([model], data, { epochs, batchSize: 2 }, { folder: path, everySteps: 1, generation: epochs, reports: [reports] });
  }
  expect(JSON.stringify(reports)).toContain('checkpoints do not contain the state of memory, so training resumes after step 2 with zeros');
});

function halvesOf(tensor: StoredTensor): StoredTensor[] {
  const bytesEach = tensor.dtype === 'bool' ? 1 : 4;
  const half = Math.floor(tensor.bytes.length / bytesEach / 2);
  return half === 0
    ? [tensor]
    : [
        { ...tensor, from: 0, bytes: tensor.bytes.subarray(0, half * bytesEach) },
        { ...tensor, from: half, bytes: tensor.bytes.subarray(half * bytesEach) },
      ];
}
