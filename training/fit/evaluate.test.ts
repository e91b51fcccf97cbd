import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, test } from 'vitest';
import { FileStorage } from '../../storage/file-storage.ts';
import type { ValidationData } from '../data/fit-data.ts';
import { InputLists } from '../data/reading/input-lists.ts';
import { fromArray } from '../data/sources/sources.ts';
import { peersOfRing } from '../ring/peers.ts';
import { classifier, examples } from '../testing/fit-world.ts';
import { ringOf } from '../testing/resources.ts';
import { type EvaluateOptions, evaluate } from './evaluate.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

const COUNT = 50;

/** Evaluates the same model on each rank. */
async function onRanks(ranks: number, data: ValidationData, options: EvaluateOptions = {}): Promise<Record<string, number>[]> {
  const rings = await ringOf(ranks);
  try {
    return await Promise.all(
      rings.map((ring) => {
        const world = { tf, peers: peersOfRing(ring), storage: new FileStorage(), lists: InputLists.ofJob().view({}), onNotice: () => {} };
        return evaluate(world, classifier(tf.train.sgd(0.1)), data, options);
      }),
    );
  } finally {
    for (const ring of rings) {
      ring.close();
    }
  }
}

/** The values of TensorFlow.js alone, on all of the data. */
function alone(batchSize: number): Record<string, number> {
  const { x, y } = examples(COUNT);
  const [loss, acc] = [classifier(tf.train.sgd(0.1)).evaluate(x, y, { batchSize })].flat().map((value) => value.dataSync()[0] as number);
  return { loss: loss as number, acc: acc as number };
}

function expectValues(found: readonly Record<string, number>[], expected: Readonly<Record<string, number>>): void {
  for (const values of found) {
    expect(Object.keys(values)).toEqual(['loss', 'acc']);
    expect(values.loss).toBeCloseTo(expected.loss as number, 5);
    expect(values.acc).toBeCloseTo(expected.acc as number, 6);
  }
  // All ranks get the same bits.
  expect(found.every((values) => Object.is(values.loss, found[0]?.loss) && Object.is(values.acc, found[0]?.acc))).toBe(true);
}

describe.each([1, 2, 3])('on %i ranks, evaluate has the values of model.evaluate on all of the data', (ranks) => {
  test.each([8, 32])('for tensors, with batches of %i', async (batchSize) => {
    const { x, y } = examples(COUNT);
    expectValues(await onRanks(ranks, [x, y], { batchSize }), alone(batchSize));
  });

  test('for a dataset, also if the shares differ in size', async () => {
    const { x, y } = examples(COUNT);
    const [xs, ys] = [x.arraySync() as number[][], y.arraySync() as number[][]];
    const rows = xs.map((row, at) => ({ xs: row, ys: ys[at] as number[] }));
    expectValues(await onRanks(ranks, fromArray(rows).batch(7)), alone(7));
  });
});

test('evaluate rejects unknown options, a model that is not compiled, and data without examples', async () => {
  const { x, y } = examples(4);
  await expect(onRanks(1, [x, y], { metric: 'acc' } as EvaluateOptions)).rejects.toMatchObject({ code: 'USAGE' });
  const world = { tf, peers: peersOfRing((await ringOf(1))[0] as never), lists: InputLists.ofJob().view({}), onNotice: () => {} };
  const bare = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [4] })] });
  await expect(evaluate(world, bare, [x, y], {})).rejects.toMatchObject({ code: 'MODEL_INVALID' });
  await expect(onRanks(2, fromArray<{ xs: number[]; ys: number[] }>([]).batch(2))).rejects.toMatchObject({ code: 'DATA_INVALID' });
});
