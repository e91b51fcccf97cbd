import * as z from 'zod';
import type { Json } from '../../../platform/json-value.ts';
import { listNames } from './input-lists.ts';

const place = z.object({ pass: z.number(), shares: z.number(), states: z.array(z.json()), lists: listNames.optional() });
/** A worker's position in the dataset. `before` is the position of the worker's shares at the end of the previous pass. */
const schema = place.extend({ before: place.optional() });

/**
 * Joins the positions of workers that step independently into one position in the dataset. `own` is this worker's position, and the result
 * is in the same pass. The position of each share comes from the worker that reads it. If that worker is already in the next pass, its
 * share is at the end. If the worker is still in an earlier pass, its share is at the beginning.
 */
export function joinPositions(own: Json | undefined, others: readonly (Json | undefined)[]): Json | undefined {
  const first = schema.safeParse(own);
  if (!first.success) {
    return own;
  }
  const { pass, shares, states } = first.data;
  const joined = [...states];
  const lists: Record<string, string> = {};
  for (const other of [...others, own]) {
    const there = schema.safeParse(other);
    const places = there.success ? [there.data, ...(there.data.before === undefined ? [] : [there.data.before])] : [];
    const fitting = places.find((each) => each.pass === pass && each.shares === shares);
    for (const [index, state] of (fitting?.states ?? []).entries()) {
      joined[index] ??= state;
    }
    Object.assign(lists, there.success ? there.data.lists : {});
  }
  return { pass, shares, states: joined, ...(Object.keys(lists).length === 0 ? {} : { lists }) } as Json;
}
