import * as z from 'zod';
import { feedName } from '../../contract/partitions/partition-feed.ts';

const count = z.number().int().nonnegative();

const position = z.object({ epoch: count, records: count });
/** A place in a stream: the query of Spark's Structured Streaming whose micro-batches are the epochs, and how the micro-batch is divided. */
const streamPosition = position.extend({
  query: z.string().max(100),
  division: z.object({ ranks: count, partitions: count }).nullable(),
});

/**
 * The places at which ranks continue to read feeds of partitions: by feed and rank, the number of epochs that the rank has finished, and the
 * number of records that it has read in the epoch. The rank `*` stands for all ranks, which are at the same place.
 */
export const feedPositions = z.record(feedName, z.record(z.string().regex(/^(\d{1,7}|\*)$/), z.union([streamPosition, position])));
export type FeedPositions = Readonly<z.infer<typeof feedPositions>>;

/** Returns the places in streams. They remain valid in another job, because Spark numbers the micro-batches of a query. */
export function streamPositions(positions: FeedPositions): FeedPositions {
  return Object.fromEntries(Object.entries(positions).filter(([, ranks]) => Object.values(ranks).every((place) => 'query' in place)));
}

/** Joins the positions that the ranks have sent, each for itself. */
export function mergePositions(parts: readonly FeedPositions[]): FeedPositions | undefined {
  const merged: Record<string, FeedPositions[string]> = {};
  for (const [feed, ranks] of parts.flatMap((part) => Object.entries(part))) {
    merged[feed] = { ...merged[feed], ...ranks };
  }
  return Object.keys(merged).length === 0 ? undefined : merged;
}
