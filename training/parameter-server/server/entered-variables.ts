import { TonyError } from '../../../platform/errors.ts';
import type { ServerAskOf } from '../protocol/messages.ts';
import type { ServedShard } from './served-shard.ts';

/** @throws TonyError RING_MISMATCH if the worker's variables or optimizer differ from the chief's. */
export function checkEntered(shard: ServedShard, rank: number, { first, variables, optimizer }: ServerAskOf<'enter'>): void {
  for (const [index, { name, shape }] of variables.entries()) {
    const { described } = shard.variable(first + index);
    if (String(described.shape) !== String(shape) || withoutNumbers(described.name) !== withoutNumbers(name)) {
      const [there, here] = [`${described.name} [${described.shape}]`, `${name} [${shape}]`];
      throw new TonyError('RING_MISMATCH', `variable ${first + index} is ${there} on rank 0, but ${here} on rank ${rank}`, {
        hint: 'Every rank must train the same variables in the same order.',
      });
    }
  }
  const { className } = shard.optimizer(optimizer.index).description;
  if (className !== optimizer.className) {
    const both = `${className} on rank 0, but ${optimizer.className} on rank ${rank}`;
    throw new TonyError('RING_MISMATCH', `optimizer ${optimizer.index} is ${both}`);
  }
}

/**
 * Creates the error for a worker that uses a variable or an optimizer in a step in which the chief did not use that variable or optimizer.
 */
export function unusedByChief(shard: ServedShard, rank: number, { variables, first, step }: ServerAskOf<'enter'>): TonyError {
  const [name] = variables.flatMap(({ name }, index) => (first + index < shard.count ? [] : [name]));
  const what = name === undefined ? 'an optimizer' : `the variable ${name}`;
  return new TonyError('RING_MISMATCH', `rank ${rank} trains ${what} in step ${step}, but rank 0 took that step without it`, {
    hint: 'Pass the same variables to every step. Variables on which the loss does not depend keep their values.',
  });
}

/** Removes the numbers that TensorFlow.js adds to make names unique: `dense_Dense3/kernel`, `first/kernel_1`, `17`. */
function withoutNumbers(name: string): string {
  return name.replaceAll(/_?\d+/g, '');
}
