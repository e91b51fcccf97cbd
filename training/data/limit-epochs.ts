import { TonyError } from '../../platform/errors.ts';
import type { Dataset } from './sources/dataset.ts';

interface EpochOptions {
  readonly epochs?: number;
  readonly initialEpoch?: number;
}

/**
 * Returns the options with the number of epochs in which the dataset can be read, unless they name a smaller number. Most datasets can be
 * read any number of times, and leave the options unchanged.
 * @param method the method that reads the dataset, for error messages.
 * @throws TonyError USAGE if the options name a larger number.
 */
export async function limitEpochs<Options extends EpochOptions>(
  method: string,
  dataset: Dataset<unknown> | null,
  options: Options,
): Promise<Options> {
  if (dataset?.epochLimit == null) {
    return options;
  }
  const { source, count } = dataset.epochLimit;
  const { epochs, initialEpoch = 0 } = options;
  const limit = await count(new AbortController().signal);
  if (epochs !== undefined && epochs - initialEpoch > limit) {
    throw new TonyError('USAGE', `${method} trains for ${epochs - initialEpoch} epochs, but ${source} has ${limit}`, {
      hint: `Pass epochs=${epochs - initialEpoch} to tony.spark.run. If you omit \`epochs\` in ${method}, it trains for all epochs of the feed.`,
    });
  }
  return epochs === undefined ? { ...options, epochs: initialEpoch + limit } : options;
}
