import { wholeNumber } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';

/** The options for a training step. Not every strategy supports all options. */
export interface StepOptions {
  /** The maximum norm of all gradients, treated as one vector. If the norm is larger, all gradients are scaled down. */
  readonly clipNorm?: number;
  /** The maximum absolute value of each number in the gradients. Larger values are clipped. */
  readonly clipValue?: number;
  /**
   * The interval in steps at which workers that step together compare their weights. Workers also compare their weights at each checkpoint.
   * The weights must be bit-identical. A difference indicates a faulty machine or a program error, so the job fails. 0 disables all
   * comparisons. Default: 100.
   */
  readonly verifyEverySteps?: number;
  /**
   * Whether batch normalisation uses the statistics of all workers' examples. Default: true, which requires two small exchanges per layer
   * and step. If false, each worker uses only the statistics of its own examples, and checkpoints contain the mean of the workers' moving
   * averages.
   */
  readonly syncBatchNorm?: boolean;
}

/** @throws TonyError USAGE. */
export function checkStepOptions(options: StepOptions): StepOptions {
  const { clipNorm, clipValue, verifyEverySteps = 0 } = options;
  for (const [name, value] of Object.entries({ clipNorm, clipValue })) {
    if (value !== undefined && !(value > 0 && Number.isFinite(value))) {
      throw new TonyError('USAGE', `${name} is ${value}, but must be a number above 0`);
    }
  }
  if (clipNorm !== undefined && clipValue !== undefined) {
    throw new TonyError('USAGE', 'clipNorm and clipValue cannot be combined; pass only one of them');
  }
  wholeNumber('verifyEverySteps', verifyEverySteps, 0);
  return options;
}
