import * as z from 'zod';
import { TonyError } from '../../platform/errors.ts';

/*
 * A partitioned feed: a source outside the job, such as a Spark program, sends partitions of records directly to the job's tasks, and can
 * send each partition again. The ApplicationMaster assigns the partitions to ranks. Each executor stores its ranks' pieces in files.
 *
 *   source ── what is needed? ──► executor ──► ApplicationMaster         (JSON, over the executor's HTTPS door)
 *   source ── pieces ───────────► executor ── files ──► program           (PUT, over the same door)
 */

const count = z.number().int().nonnegative();

export const feedName = z.string().regex(/^[\w.-]{1,100}$/);

/** Returns the beginning of the names of the feeds that a stream consists of: one for each micro-batch, with its number. */
export function batchPrefix(stream: string): string {
  return `${stream}.batch-`;
}

/** Maximum number of partitions of a feed, so that a request with the size of each partition fits into a gRPC message. */
export const MAXIMUM_PARTITIONS = 50_000;
/** Maximum number of pieces that an executor requests at the same time for one rank. */
export const MAXIMUM_WANTED = 256;

/** What a source declares before it sends records. */
export const feedOpening = z.object({
  /** Random ID of the source. A feed has one source during the whole job. */
  source: z.string().min(1).max(100),
  /** `arrow`: each piece is a stream of Arrow record batches. `pickle`: each piece consists of pickled lists, each with a length before it. */
  format: z.enum(['arrow', 'pickle']),
  partitions: count.max(MAXIMUM_PARTITIONS),
  /** Number of records in each partition, or null if the source has not counted them yet. */
  counts: z.array(count).max(MAXIMUM_PARTITIONS).nullable(),
  epochs: count.min(1).max(1_000_000),
  /** `balanced`: a rank that has few pieces gets the next partition. `equal`: each rank gets the same number of records in each epoch. */
  shards: z.enum(['balanced', 'equal']),
  /** How `equal` divides records that do not divide evenly: `pad` repeats some of them, and `cut` leaves some out. */
  remainder: z.enum(['pad', 'cut']),
  /** Seed for the order of each epoch, or null to keep the source's order. */
  seed: count.nullable(),
  /** Maximum number of bytes that one executor stores, unless a single piece is larger. */
  cacheBytes: count.min(1),
});
export type FeedOpening = z.infer<typeof feedOpening>;

/** Part of a partition that one rank reads: its records from `from` up to, but not including, `to`. Null means the partition's end. */
export interface PartitionPiece {
  readonly partition: number;
  readonly from: number;
  readonly to: number | null;
}

/** What an executor has received for a piece. */
export const pieceFacts = z.object({
  /** Index of the piece in the rank's list. */
  index: count,
  records: count,
  /** SHA-256 of the received bytes in hexadecimal form. */
  digest: z.string().regex(/^[0-9a-f]{64}$/),
});
export type PieceFacts = z.infer<typeof pieceFacts>;

/** Address of an executor's door for sources. */
export const doorAddress = z.object({ host: z.string().min(1).max(300), port: count.min(1).max(65_535) });
export type DoorAddress = z.infer<typeof doorAddress>;

/** What an executor reports for one rank. */
export const rankReport = z.object({
  door: doorAddress,
  feed: feedName,
  rank: count,
  worldSize: count.min(1),
  /** Number of pieces that the executor already knows. */
  known: count,
  /** Pieces that the executor has received since its last report. */
  stored: z.array(pieceFacts).max(10_000),
  /** Indices of the pieces that the executor is ready to receive. */
  wanted: z.array(count).max(MAXIMUM_WANTED),
  /** Number of known pieces that the program has not read yet in the first epoch, or null if the executor has no room for another one. */
  unread: count.nullable(),
  /** True if the answer may wait until there are new pieces. */
  wait: z.boolean(),
});
export type RankReport = z.infer<typeof rankReport>;

/** The answer to a rank's report. */
export interface RankPieces {
  readonly opening: FeedOpening;
  /** Pieces from `known` on. */
  readonly pieces: readonly PartitionPiece[];
  /** Facts about those pieces, as they were first received. Null for a piece that has not been received yet. */
  readonly facts: readonly (PieceFacts | null)[];
  /** True if the list of pieces is complete. */
  readonly isComplete: boolean;
  /** Partitions that the source has sent again with other contents. */
  readonly changed: readonly { readonly partition: number; readonly before: number; readonly now: number }[];
}

/** A piece that the source must send, and where. */
export interface NeededPiece extends PartitionPiece, DoorAddress {
  readonly rank: number;
  readonly index: number;
}

/** The answer to a source's question about what to send. */
export interface FeedPlan {
  readonly version: number;
  /** True if the source must count the records of each partition before it sends them. */
  readonly counting: boolean;
  /** Pieces that ranks are ready to receive. */
  readonly needed: readonly NeededPiece[];
  /** Partitions that the source may offer next, in order. Empty if each partition belongs to a rank already. */
  readonly unassigned: readonly number[];
  /** Number of ranks that read the feed. */
  readonly readers: number;
}

/**
 * Checks a request about a feed.
 * @throws TonyError DATA_INVALID
 */
export function parseFeedRequest<Type>(schema: z.ZodType<Type>, body: unknown): Type {
  const parsed = schema.safeParse(body);
  if (!parsed.success) {
    throw new TonyError('DATA_INVALID', `a request about a feed is invalid: ${z.prettifyError(parsed.error)}`);
  }
  return parsed.data;
}
