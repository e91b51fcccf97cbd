import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Report } from '../../contract/process/task-context.ts';
import { peersOfRing } from '../ring/peers.ts';
import { classifier, examples, fitTogether } from '../testing/fit-world.ts';
import { ringOf } from '../testing/resources.ts';
import type { TrainingData } from './data.ts';
import { differingData } from './same-data.ts';

async function compare(datas: readonly TrainingData[]): Promise<PromiseSettledResult<string | null>[]> {
  const rings = await ringOf(datas.length);
  return await Promise.allSettled(rings.map((ring, rank) => differingData(tf, peersOfRing(ring), datas[rank] as TrainingData)));
}

const columns = (numbers: readonly number[], labels: readonly number[]): TrainingData => ({
  x: { values: Float32Array.from(numbers), shape: [labels.length, numbers.length / labels.length] },
  y: tf.tensor1d([...labels]),
});

describe('differingData', () => {
  test('differingData accepts equal examples with any values', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.float({ noNaN: true }), { minLength: 1, maxLength: 200 }), async (numbers) => {
        const outcomes = await compare([columns(numbers, numbers), columns(numbers, numbers)]);
        expect(outcomes.map((outcome) => outcome.status === 'fulfilled' && outcome.value)).toEqual([null, null]);
      }),
      { numRuns: 30 },
    );
  });

  test('differingData names the rank and the column with different values, on every rank', async () => {
    const outcomes = await compare([columns([1, 2], [0, 1]), columns([1, 2], [0, 1]), columns([1, 2], [1, 1])]);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ value: expect.stringMatching(/^y\[0\] differs between ranks 0 and 2\. Pass the same examples/) });
    }
  });

  test('differingData throws on every rank when shapes differ', async () => {
    const outcomes = await compare([columns([1, 2], [0, 1]), columns([1, 2, 3], [0, 1, 2])]);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ reason: { code: 'DATA_INVALID', message: 'x[0] is [2,1] on rank 0 and [3,1] on rank 1' } });
    }
  });
});

test('fit reports different values once, and trains nevertheless', async () => {
  const reports: Report[][] = [[], []];
  const models = [classifier(tf.train.sgd(0.1)), classifier(tf.train.sgd(0.1))];
  await fitTogether(models, (rank) => examples(24, rank), { batchSize: 4 }, { reports });
  const notices = reports.flat().flatMap((report) => (report.type === 'notice' ? [report.message] : []));
  expect(notices).toEqual([expect.stringContaining('x[0] differs between ranks 0 and 1')]);
});
