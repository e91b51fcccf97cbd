import { TonyError } from '../../platform/errors.ts';

/** Options of a training step. Not every strategy supports all of them. */
export interface StepOptions {
  /** The maximum norm of the summed gradients of all variables as one vector. Gradients with a larger norm are scaled down. */
  readonly clipNorm?: number;
  /** Limits each number of the summed gradients to the range from -clipValue to clipValue. */
  readonly clipValue?: number;
  /**
   * The interval, in steps, at which workers that step together compare their weights. Default: 100. Workers also compare their weights at
   * each checkpoint. 0 disables all comparisons. The weights must be equal bit for bit; a difference indicates a faulty machine or a defect
   * of the program, and fails the job.
   */
  readonly verifyEverySteps?: number;
  /**
   * Whether batch normalisation uses the statistics of all workers' examples, at the cost of two small exchanges per layer and step.
   * Default: true. If false, each worker normalises by its own examples, and checkpoints hold the mean of the workers' moving averages.
   */
  readonly syncBatchNorm?: boolean;
}

/** @throws TonyError USAGE. */
export function checkStepOptions(options: StepOptions): StepOptions {
  const { clipNorm, clipValue, verifyEverySteps = 0 } = options;
  for (const [name, value] of Object.entries({ clipNorm, clipValue })) {
    if (value !== undefined && !(value > 0 && Number.isFinite(value))) {
      throw new TonyError('USAGE', `${name} is ${value}; it must be a number above 0`);
    }
  }
  if (clipNorm !== undefined && clipValue !== undefined) {
    throw new TonyError('USAGE', 'clipNorm and clipValue cannot be combined; pass only one of them');
  }
  if (!Number.isInteger(verifyEverySteps) || verifyEverySteps < 0) {
    throw new TonyError('USAGE', `verifyEverySteps is ${verifyEverySteps}; it must be a whole number; 0 disables verification`);
  }
  return options;
}
