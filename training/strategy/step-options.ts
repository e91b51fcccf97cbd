import { TonyError } from '../../platform/errors.ts';

/** Options of a training step, for every strategy that supports them. */
export interface StepOptions {
  /** Scales the summed gradient down to this global norm if it is larger. The norm is that of all variables' gradients as one vector. */
  readonly clipNorm?: number;
  /** Clips each number of the summed gradient to the range from -clipValue to clipValue. */
  readonly clipValue?: number;
  /**
   * The interval, in steps, at which workers that step together compare their weights; they also compare them at each checkpoint.
   * Default: 100. 0 disables the comparison. The weights must be equal bit for bit: a difference means a defect of a machine or of the
   * program, and ends the job.
   */
  readonly verifyEverySteps?: number;
  /**
   * Makes batch normalisation use the statistics of all workers' examples. Default: true. Costs two small exchanges per layer and step. If
   * false, each worker normalises by its own examples, and the workers average the moving averages for checkpoints.
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
    throw new TonyError('USAGE', 'clipNorm and clipValue exclude each other');
  }
  if (!Number.isInteger(verifyEverySteps) || verifyEverySteps < 0) {
    throw new TonyError('USAGE', `verifyEverySteps is ${verifyEverySteps}; it must be a whole number, 0 for never`);
  }
  return options;
}
