import { z } from 'zod';
import type { Json } from './stream.ts';

const place = z.object({ pass: z.number(), shares: z.number(), states: z.array(z.json()) });
/** `before`: where the shares ended in the pass before. */
const schema = place.extend({ before: place.optional() });

/**
 * Where workers that step alone stand in a dataset, told as one. Each knows its own shares; the pass is that of the first one (`own`). One
 * that is a pass ahead has ended its shares of this one; one that is behind begins this one anew.
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
    const places = there.success ? [there.data, ...(there.data.before === undefined ? [] : [there.data.before])] : [];
    const fitting = places.find((each) => each.pass === pass && each.shares === shares);
    for (const [index, state] of (fitting?.states ?? []).entries()) {
      joined[index] ??= state;
    }
  }
  return { pass, shares, states: joined } as Json;
}
