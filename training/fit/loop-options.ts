import {
  checkOptionValues,
  isAnything,
  isFlag,
  isOneOf,
  isTextNotEmpty,
  isWhole,
  isWholeOrInfinite,
  type OptionRules,
} from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Json } from '../../platform/json-value.ts';
import { Dataset } from '../data/sources/dataset.ts';
import type { LoopParts } from '../strategy/loop-state.ts';
import type { OnNaN } from './fit-options.ts';

export interface LoopOptions<T, State extends Json> extends LoopParts {
  /** The name of the loop in checkpoints. Default: `loop-1`, `loop-2`, ... in the order in which the program opens loops. */
  readonly name?: string;
  /** A dataset of batches. Each rank reads its share. */
  readonly data?: Dataset<T>;
  /**
   * The number of passes over the data. Default: 1 or, if `steps` is set, as many passes as the steps require. For a DataFrame that a Spark
   * program sends, the default and the maximum are the epochs of the Spark program, or Infinity for a stream.
   */
  readonly epochs?: number;
  /** The number of iterations after which the loop ends. */
  readonly steps?: number;
  /** The seed for the data order and for random numbers. Default: 1. */
  readonly seed?: number;
  /** Additional program state to restore after a restart. Each checkpoint stores rank 0's state. */
  readonly state?: State;
  /**
   * How to handle a NaN or infinite loss or variable. With `stop`, the default, the loop throws TRAINING_DIVERGED on all ranks. With
   * `continue`, training continues, but a restarted program never resumes from a checkpoint with such values.
   */
  readonly onNaN?: OnNaN;
  /** If false, the loop neither reads nor writes checkpoints, and a restarted program runs the loop from the beginning. */
  readonly checkpoint?: boolean;
}

const OPTIONS: OptionRules<LoopOptions<unknown, Json>> = {
  name: isTextNotEmpty,
  models: isAnything,
  variables: isAnything,
  optimizers: isAnything,
  data: (value) => (value instanceof Dataset ? null : 'a dataset'),
  epochs: isWholeOrInfinite(0),
  steps: isWhole(0),
  seed: isWhole(0),
  state: isAnything,
  onNaN: isOneOf('stop', 'continue'),
  checkpoint: isFlag,
};

/** @throws TonyError USAGE for invalid options. */
export function checkLoopOptions(options: LoopOptions<unknown, Json>): void {
  checkOptionValues('loop', options, OPTIONS);
  if (options.epochs !== undefined && options.data === undefined) {
    throw new TonyError('USAGE', 'epochs is the number of passes over the data, but the loop has no data', {
      hint: 'Pass data as well, or pass steps instead of epochs.',
    });
  }
}
