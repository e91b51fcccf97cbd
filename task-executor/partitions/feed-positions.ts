import * as z from 'zod';
import { feedName } from '../../contract/partitions/partition-feed.ts';

const count = z.number().int().nonnegative();

/**
 * The places at which ranks continue to read feeds of partitions: by feed and rank, the number of epochs that the rank has finished, and the
 * number of records that it has read in the epoch. The rank `*` stands for all ranks, which are at the same place.
 */
export const feedPositions = z.record(feedName, z.record(z.string().regex(/^(\d{1,7}|\*)$/), z.object({ epoch: count, records: count })));
export type FeedPositions = Readonly<z.infer<typeof feedPositions>>;

/** Joins the positions that the ranks have sent, each for itself. */
export function mergePositions(parts: readonly FeedPositions[]): FeedPositions | undefined {
  const merged: Record<string, Record<string, { epoch: number; records: number }>> = {};
  for (const [feed, ranks] of parts.flatMap((part) => Object.entries(part))) {
    merged[feed] = { ...merged[feed], ...ranks };
  }
  return Object.keys(merged).length === 0 ? undefined : merged;
}
