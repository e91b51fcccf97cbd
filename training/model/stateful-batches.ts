import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';

/**
 * Batches of a stateful model, such as an LSTM with `stateful: true`. Its layers keep one state for each example of a batch, so all batches
 * have the same number of examples.
 */
export interface StatefulBatches {
  readonly batchSize: number;
}

/** Returns the batches that a stateful model requires, or null for other models. */
export function statefulBatches(model: unknown): StatefulBatches | null {
  const { stateful, inputs } = model as Partial<tfjs.LayersModel>;
  const batchSize = inputs?.[0]?.shape[0];
  return stateful === true && typeof batchSize === 'number' ? { batchSize } : null;
}

/** @throws TonyError DATA_INVALID if a stateful model cannot use a batch with this number of examples. */
export function checkBatch(required: StatefulBatches | null, examples: number): void {
  if (required !== null && examples !== required.batchSize) {
    throw unfit(required, '', `a batch has ${examples} examples`, 'Call batch(SIZE, { dropRemainder: true }), or omit the last examples.');
  }
}

/** @throws TonyError USAGE if a stateful model cannot use batches of this size. */
export function checkBatchSize(required: StatefulBatches | null, batchSize: number | null, option = 'batchSize'): void {
  if (required !== null && batchSize !== null && batchSize !== required.batchSize) {
    throw new TonyError(
      'USAGE',
      `${option} is ${batchSize}, but the model is stateful, and its input has the batch size ${required.batchSize}`,
      { hint: `Set ${option} to ${required.batchSize}.` },
    );
  }
}

/**
 * Checks the number of examples that several ranks divide among themselves.
 * @param what the data, for error messages.
 * @throws TonyError DATA_INVALID if a stateful model would receive a smaller batch at the end.
 */
export function checkExampleCount(required: StatefulBatches | null, examples: number, ranks: number, what: string): void {
  const remainder = required === null ? 0 : examples % (required.batchSize * ranks);
  if (required !== null && remainder !== 0) {
    const workers = ranks === 1 ? '' : ` times the number of workers (${ranks})`;
    throw unfit(required, workers, `${what} has ${examples}`, `Omit the last ${remainder} examples.`);
  }
}

function unfit({ batchSize }: StatefulBatches, workers: string, found: string, hint: string): TonyError {
  const rule = `a stateful model needs a number of examples that is divisible by the batch size ${batchSize}${workers}`;
  return new TonyError('DATA_INVALID', `${rule}, but ${found}`, { hint });
}
