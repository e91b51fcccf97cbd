import { checkOptionValues, isAnything, isNotNegative, type OptionRules } from '../../platform/check-options.ts';
import type { Trainable } from '../model/trainables.ts';

export interface CustomStepOptions {
  /**
   * The variables, layer weights or models to train, in the same order on every rank. The list may change from step to step. Default: all
   * trainable variables in TensorFlow.js. If the list contains a model, the step also replaces the moving averages of its batch
   * normalisation layers with their mean over the ranks.
   */
  readonly variables?: Trainable | readonly Trainable[];
  /**
   * The number of examples over which `loss` computes the mean. Each rank's gradients are weighted by its number of examples, so the
   * result is the same as that of one step over all ranks' examples. If the number is 0, the step does not call `loss` on this rank.
   * Default: all ranks have equal weight.
   */
  readonly examples?: number;
}

const STEP_OPTIONS: OptionRules<CustomStepOptions> = { variables: isAnything, examples: isNotNegative };

/** @param name the function name to use in error messages, for example `cluster.step`. @throws TonyError USAGE. */
export function checkCustomStepOptions(name: string, options: CustomStepOptions): void {
  checkOptionValues(name, options, STEP_OPTIONS);
}
