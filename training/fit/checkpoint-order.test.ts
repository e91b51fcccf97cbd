import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import type { Report } from '../../contract/process/task-context.ts';
import { folder } from '../../contract/testing/folder.ts';
import { CheckpointOrder } from '../checkpoint/checkpoint-order.ts';
import { classifier, examples, fitTogether } from '../testing/fit-world.ts';

test.each([1, 3])('%i ranks store a checkpoint after the step in which one of them has an order', async (workers) => {
  const place = await folder();
  const files = Array.from({ length: workers }, (_, rank) => path.join(place, `order-${rank}`));
  // Each read of the clock advances it by the check interval, so every step checks for an order.
  const checkpointOrders = files.map((file) => {
    let now = 0;
    return new CheckpointOrder(file, () => (now += 1_000));
  });
  const reports: Report[][] = files.map(() => []);
  const models = files.map(() => classifier(tf.train.sgd(0.1)));
  const ordered = workers - 1;
  const onBatchEnd = async (_: number, { step }: { readonly step: number }) => {
    if (step === 4) {
      writeFileSync(files[ordered] as string, '');
    }
  };
  const options = (rank: number) => ({
    epochs: 3,
    batchSize: 12 / workers,
    seed: 5,
    ...(rank === ordered ? { callbacks: { onBatchEnd } } : {}),
  });
  await fitTogether(models, examples(48), options, { folder: path.join(place, 'checkpoints'), everySteps: 100, checkpointOrders, reports });
  expect(reports[0]?.filter(({ type }) => type === 'checkpoint')).toEqual([
    { type: 'checkpoint', step: 5 },
    { type: 'checkpoint', step: 12 },
  ]);
  expect(files.filter((file) => existsSync(file))).toEqual([]);
});

const MINUTE = 60_000;

/** Trains for 12 steps. Each rank's clock gains minutes at the end of each step. Returns the steps of rank 0's checkpoints. */
async function checkpointsByTime(
  minutesOf: readonly ((step: number) => number)[],
  expected: readonly number[],
  everySteps?: number,
): Promise<readonly number[]> {
  const minutes = minutesOf.map(() => 0);
  const reports: Report[][] = minutesOf.map(() => []);
  const stored = () => reports[0]?.flatMap((report) => (report.type === 'checkpoint' ? [report.step] : [])) ?? [];
  const onBatchEnd =
    (rank: number) =>
    async (_: number, { step }: { readonly step: number }) => {
      // A newer checkpoint would replace one that is still waiting to be written.
      await expect.poll(stored, { timeout: 20_000 }).toEqual(expected.filter((each) => each < step));
      minutes[rank] = (minutes[rank] ?? 0) + (minutesOf[rank]?.(step) ?? 0);
    };
  const workers = minutesOf.length;
  const options = (rank: number) => ({ epochs: 3, batchSize: 12 / workers, seed: 5, callbacks: { onBatchEnd: onBatchEnd(rank) } });
  await fitTogether(
    minutes.map(() => classifier(tf.train.sgd(0.1))),
    examples(48),
    options,
    {
      ...{ folder: path.join(await folder(), 'checkpoints'), everyMs: 10 * MINUTE, reports },
      ...(everySteps !== undefined && { everySteps }),
      clocks: minutes.map((_, rank) => () => (minutes[rank] ?? 0) * MINUTE),
    },
  );
  return stored();
}

test.each([1, 3])('%i ranks store a checkpoint after the same step when the time of rank 0 has passed', async (workers) => {
  // Rank 0 gains 4 minutes in each step, so 12 minutes have passed before steps 4, 8 and 12. The other clocks are faster, and have no effect.
  const clocks = Array.from({ length: workers }, (_, rank) => () => (rank === 0 ? 4 : 30));
  const expected = [4, 8, 12];
  expect(await checkpointsByTime(clocks, expected)).toEqual(expected);
});

test('with a number of steps and a time, a checkpoint is due when the first of both has passed', async () => {
  const expected = [3, 6, 8, 9, 11, 12];
  expect(await checkpointsByTime([(step) => (step <= 4 ? 1 : 11)], expected, 3)).toEqual(expected);
});
