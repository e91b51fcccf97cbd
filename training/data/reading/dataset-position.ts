import * as z from 'zod';
import type { Json } from '../../../platform/json-value.ts';

const place = z.object({ pass: z.number(), shares: z.number(), states: z.array(z.json()) });
/** `before` is the position of the worker's shares at the end of the previous pass. */
const schema = place.extend({ before: place.optional() });

/**
 * Joins the positions of independently stepping workers into one dataset position in the current pass of this worker (`own`). A worker in
 * the same pass contributes the current positions of its shares. A worker in the next pass contributes the positions at the end of the
 * previous pass. A worker in an earlier pass contributes the beginning of its shares.
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
