import * as z from 'zod';
import { TonyError } from '../../../platform/errors.ts';
import type { PieceSource } from './piece-source.ts';

const count = z.number().int().nonnegative();

/** A place in a stream, as a checkpoint contains it. */
export const storedPlace = z.object({
  /** The query of Spark's Structured Streaming that numbers the micro-batches. */
  query: z.string(),
  /** Number of the micro-batch that the ranks read or, between micro-batches, of the next one. */
  number: count,
  /** Number of partitions of the micro-batch that the ranks read, or null between micro-batches. */
  partitions: count.nullable(),
});
type StoredPlace = z.infer<typeof storedPlace>;

/**
 * The place of all ranks in a stream, which consists of the micro-batches of a query of Spark. Each pass over the dataset reads one of them.
 * Spark sends the next one only when a checkpoint contains the last one.
 */
export class StreamPlace {
  #at: StoredPlace | null;
  /** A stored checkpoint contains all micro-batches with lower numbers, and a position that was given to a checkpoint those of `#begun`. */
  #saved: number;
  #begun: number;
  #isReading = false;
  #feed = '';
  /** True after the end of the stream. */
  isOver = false;

  /** @param restored the place in the checkpoint from which the ranks resume, or null for the beginning. */
  constructor(restored: StoredPlace | null) {
    this.#at = restored;
    this.#saved = this.#begun = restored?.number ?? 0;
  }

  /** True if the ranks have read a micro-batch to its end, and no position that contains it has been given to a checkpoint. */
  get needsCheckpoint(): boolean {
    return this.#at !== null && this.#begun < this.#at.number;
  }

  /**
   * Waits for the micro-batch of a pass.
   * @returns its pieces, or null at the end of the stream.
   * @throws TonyError FEED_LOST, or USAGE if the rest of a micro-batch that the ranks have begun cannot be read.
   */
  async next(feed: string, source: PieceSource, signal: AbortSignal): Promise<PieceSource | null> {
    if (this.#isReading) {
      throw new TonyError('USAGE', `a dataset can contain only one stream of Spark, and only once, but this one also contains ${feed}`);
    }
    this.#isReading = true;
    this.#feed = feed;
    const before = this.#at;
    const found = await source.nextBatch({ query: before?.query ?? null, next: before?.number ?? 0, saved: this.#saved }, signal);
    if (found === null) {
      this.isOver = true;
      return null;
    }
    const { query, number, pieces } = found;
    const { partitions } = await pieces.opening(signal);
    if (before !== null && before.partitions !== null) {
      checkRest(feed, before, { query, number, partitions });
    }
    this.#at = { query, number, partitions };
    this.#saved = this.#begun = number;
    return pieces;
  }

  /** The ranks have read the micro-batch of this pass. */
  end(): void {
    if (this.#at !== null && this.#isReading) {
      this.#at = { ...this.#at, number: this.#at.number + 1, partitions: null };
    }
    this.#isReading = false;
  }

  /**
   * Waits until a checkpoint contains all micro-batches that the ranks have read. Only the rank that writes checkpoints waits, and tells the
   * job that it has done so.
   * @param stored resolves when the newest checkpoint is stored.
   * @throws TonyError USAGE if no checkpoint contains the last micro-batch.
   */
  async settle(isWriter: boolean, stored: () => Promise<void>): Promise<void> {
    if (this.#at !== null && this.needsCheckpoint) {
      throw new TonyError(
        'USAGE',
        `all records of micro-batch ${this.#at.number - 1} of the stream ${this.#feed} have been read, but no checkpoint contains them, so Spark cannot send the next one`,
        {
          hint: 'Omit `checkpoint: false`. With `onNaN: "continue"`, there is no checkpoint while the loss or a weight is NaN or infinite.',
        },
      );
    }
    if (isWriter && this.#saved < this.#begun) {
      await stored();
      this.#saved = this.#begun;
    }
  }

  /** Returns the place to store in a checkpoint, or undefined if the dataset contains no stream. */
  toStore(): StoredPlace | undefined {
    this.#begun = this.#at?.number ?? 0;
    return this.#at ?? undefined;
  }
}

/** Checks that a micro-batch has the same records as when the ranks had read a part of it. */
function checkRest(feed: string, before: StoredPlace, now: StoredPlace): void {
  if (now.query !== before.query) {
    throw new TonyError(
      'USAGE',
      `the checkpoint ends within micro-batch ${before.number} of another query than the stream ${feed} has now`,
      {
        hint: 'Start the query with its earlier checkpointLocation, or the job with another checkpoint.dir.',
      },
    );
  }
  if (now.number !== before.number) {
    throw new TonyError(
      'FEED_LOST',
      `the checkpoint ends within micro-batch ${before.number} of the stream ${feed}, but Spark continues with ${now.number}`,
      { hint: 'Resume from the newest checkpoint, or start the query with a new checkpointLocation.' },
    );
  }
  if (now.partitions !== before.partitions) {
    throw new TonyError(
      'USAGE',
      `the checkpoint ends within micro-batch ${now.number} of the stream ${feed}, which had ${before.partitions} partitions, but now has ${now.partitions}`,
      { hint: 'Start Spark with as many cores as before.' },
    );
  }
}
