import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import type { Report } from '../../contract/process/task-context.ts';
import { folder } from '../../contract/testing/folder.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { fitTogether } from '../testing/fit-world.ts';
import type { FitOptions } from './fit-options.ts';

/** The loss is finite up to the step with the absurd learning rate, and NaN or infinite afterwards. */
function lines(count: number): tf.Sequential[] {
  return Array.from({ length: count }, () => {
    const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1], useBias: false, kernelInitializer: 'ones' })] });
    model.compile({ optimizer: tf.train.sgd(0.001), loss: 'meanSquaredError' });
    return model;
  });
}

const data = { x: tf.ones([40, 1]), y: tf.zeros([40, 1]) };
/**
 * The step with the absurd learning rate makes the weight, and therefore the next step's loss, infinite. The callback waits for each
 * good checkpoint.
 */
const options = (workers: number, reports: readonly Report[], absurd: number): FitOptions => ({
  batchSize: 2 / workers,
  learningRate: ({ step }) => (step + 1 === absurd ? 3e38 : 0.001),
  callbacks: {
    // The checkpoint of a step is written after the step's callbacks.
    onBatchEnd: async (_, { step }) => {
      if (step <= absurd && step > 1 && step % 4 === 1) {
        await expect.poll(() => reports).toContainEqual({ type: 'checkpoint', step: step - 1 });
      }
    },
  },
});

const noticesOf = (reports: readonly Report[]) =>
  reports.flatMap((report) => (report.type === 'notice' && report.message.includes('diverged') ? [report.message] : []));

describe.each([1, 2])('a NaN or infinite loss on %i ranks', (workers) => {
  test('a NaN or infinite loss stops training on all ranks with one notice and keeps the good checkpoints', async () => {
    const dir = await folder();
    const reports: Report[][] = Array.from({ length: workers }, () => []);
    const losses = await Promise.allSettled([
      fitTogether(lines(workers), data, options(workers, reports[0] ?? [], 13), { folder: dir, everySteps: 4, reports }),
    ]);
    expect(losses[0]).toMatchObject({ status: 'rejected', reason: { code: 'TRAINING_DIVERGED' } });
    // Rank 0 reports the notice; the other rank may fail earlier.
    await expect
      .poll(() => noticesOf(reports.flat()))
      .toEqual([
        expect.stringMatching(
          /^training has diverged: (the loss is (Infinity|NaN) at step 1[4-6]|weight .* is NaN or infinite after step 16) \(phase fit-1\); training stops\. Lower/,
        ),
      ]);
    expect(await new CheckpointStore(new FileStorage(), fileUri(dir)).steps()).toEqual([12, 8, 4]);
  });

  test("a NaN or infinite loss does not stop training with onNaN 'continue', which writes only a final checkpoint and replaces no good one", async () => {
    const dir = await folder();
    const reports: Report[][] = Array.from({ length: workers }, () => []);
    const wanted: FitOptions = { ...options(workers, reports[0] ?? [], 13), onNaN: 'continue' };
    const [history] = await fitTogether(lines(workers), data, wanted, { folder: dir, everySteps: 4, reports });
    expect(history?.history.loss?.[0]).toBeNaN();
    expect(noticesOf(reports.flat())).toEqual([
      expect.stringContaining('training continues, without checkpoints until all values are finite'),
    ]);
    const store = new CheckpointStore(new FileStorage(), fileUri(dir));
    expect(await store.steps()).toEqual([20, 12, 8, 4]);
    const skipped: string[] = [];
    expect((await store.newest((message) => skipped.push(message)))?.position.step).toBe(12);
    expect(skipped).toEqual([expect.stringMatching(/step-20 is skipped, because training had diverged/)]);
    // The diverged phase is finished, so a restart does not repeat it.
    const [again] = await fitTogether(lines(workers), data, wanted, { folder: dir, everySteps: 4, generation: 2 });
    expect(again).toEqual(history);
  });
});

test('training detects a NaN weight before it writes a checkpoint, even if the loss was finite', async () => {
  const dir = await folder();
  const reports: Report[][] = [[]];
  const run = fitTogether(lines(1), data, options(1, reports[0] ?? [], 12), { folder: dir, everySteps: 4, reports });
  await expect(run).rejects.toThrow(/^phase fit-1: weight dense_Dense\d+\/kernel is NaN or infinite after step 12$/);
  expect(await new CheckpointStore(new FileStorage(), fileUri(dir)).steps()).toEqual([8, 4]);
});
