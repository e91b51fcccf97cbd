import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Trainable } from '../model/trainables.ts';

export interface CustomStepOptions {
  /**
   * The variables, layer weights or models to train, in the same order on every rank. The list may change from step to step. Default: all
   * trainable variables in TensorFlow.js. For a model, the ranks also average the moving averages of its batch normalisation layers.
   */
  readonly variables?: Trainable | readonly Trainable[];
  /**
   * The number of examples over which `loss` computes the mean. The step weights this rank's gradients by this number, so the result equals
   * that of one step over all ranks' examples. If it is 0, the step does not call `loss` on this rank. Default: all ranks have equal
   * weight.
   */
  readonly examples?: number;
}

const STEP_OPTIONS: OptionNames<CustomStepOptions> = { variables: true, examples: true };

/** @param name the function name in error messages, for example `cluster.step`. @throws TonyError USAGE. */
export function checkCustomStepOptions(name: string, options: CustomStepOptions): void {
  checkOptions(name, options, STEP_OPTIONS);
  const { examples } = options;
  if (examples !== undefined && !(Number.isFinite(examples) && examples >= 0)) {
    throw new TonyError('USAGE', `examples is ${examples}; it must be 0 or a positive number`);
  }
}
