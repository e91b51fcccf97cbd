import { z } from 'zod';
import type { Json } from '../../../platform/json-value.ts';

const place = z.object({ pass: z.number(), shares: z.number(), states: z.array(z.json()) });
/** `before`: the end of the shares in the previous pass. */
const schema = place.extend({ before: place.optional() });

/**
 * Joins the positions in a dataset of workers that step alone. Each worker knows its own shares; the pass is that of the first worker
 * (`own`). A worker that is a pass ahead has finished its shares of this pass; one that is behind starts this pass from its beginning.
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
