import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { folder } from '../../../contract/testing/folder.ts';
import type { BatchLogs } from '../../fit/callbacks.ts';
import { classifier, examples, fitTogether } from '../../testing/fit-world.ts';

/** Trains on three ranks. After the last step, changes rank 1's optimizer state but not its weights. */
async function trainWithDivergingSlot(verifyEverySteps: number): Promise<void> {
  const optimizers = [0, 1, 2].map(() => tf.train.adam(0.01));
  const models = optimizers.map((optimizer) => classifier(optimizer));
  const onBatchEnd = (_: number, { step }: BatchLogs) => {
    if (step !== 8) {
      return;
    }
    const { accumulatedSecondMoment } = optimizers[1] as unknown as {
      accumulatedSecondMoment: readonly { readonly variable: tf.Variable }[];
    };
    tf.tidy(() => {
      const { variable } = accumulatedSecondMoment[2] as { variable: tf.Variable };
      variable.assign(tf.add(variable, 1e-3));
    });
  };
  const options = (rank: number) => ({ epochs: 2, batchSize: 4, verifyEverySteps, callbacks: rank === 1 ? { onBatchEnd } : {} });
  await fitTogether(models, examples(48), options, { folder: await folder() });
}

test('an optimizer slot that differs between ranks prevents the checkpoint, and the error names the slot', async () => {
  await expect(trainWithDivergingSlot(1000)).rejects.toMatchObject({
    code: 'RANKS_MISMATCH',
    message: expect.stringMatching(
      /^at the checkpoint of step 8 the ranks hold different values of the variable optimizer:accumulatedSecondMoment:2:\S+\/kernel\/v: rank 1 differs from ranks 0 and 2$/,
    ),
  });
  await trainWithDivergingSlot(0);
});
