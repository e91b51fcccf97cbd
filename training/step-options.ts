import { TonyError } from '../conf/errors.ts';

/** How a step is taken, under every strategy that can. */
export interface StepOptions {
  /** The summed gradient is scaled down to this global norm where it is larger: that of all variables' gradients as one vector. */
  readonly clipNorm?: number;
  /** Each number of the summed gradient is brought between minus this and this. */
  readonly clipValue?: number;
  /**
   * Workers that step together compare their weights each so many steps, and at each checkpoint: 100 unless told, 0 for never. They are
   * equal to the bit; a difference is a defect of a machine or of the program, and ends the job.
   */
  readonly verifyEverySteps?: number;
  /**
   * Layers of batch normalisation normalise by the statistics of all workers' examples; true unless told. Costs two small exchanges a layer
   * and step. Without it each worker normalises by its own examples, and the moving averages are averaged for checkpoints.
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
