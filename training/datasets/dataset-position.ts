import { z } from 'zod';
import type { Json } from './stream.ts';

const schema = z.object({ pass: z.number(), shares: z.number(), states: z.array(z.json()) });

/**
 * Where workers that step alone stand in a dataset, told as one. Each knows its own shares; the pass is the first one's. Of a worker that is
 * in another pass nothing fits: its shares of this pass begin anew.
 */
export function joinPositions(own: Json | undefined, others: readonly (Json | undefined)[]): Json | undefined {
  const first = schema.safeParse(own);
  if (!first.success) {
    return own;
  }
  const { pass, shares, states } = first.data;
  const joined = [...states];
  for (const other of others) {
    const there = schema.safeParse(other);
    if (there.success && there.data.pass === pass && there.data.shares === shares) {
      for (const [index, state] of there.data.states.entries()) {
        joined[index] ??= state;
      }
    }
  }
  return { pass, shares, states: joined } as Json;
}
