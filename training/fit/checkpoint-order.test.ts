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
