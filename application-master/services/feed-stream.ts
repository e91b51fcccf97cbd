import * as z from 'zod';
import { batchPrefix, feedName } from '../../contract/partitions/partition-feed.ts';
import { TonyError } from '../../platform/errors.ts';
import { SourceLife } from './source-life.ts';

const count = z.number().int().nonnegative();
/** Leaves room for the names of the micro-batches' feeds. */
const streamName = feedName.max(80);
const queryId = z.string().min(1).max(100);

/** What the Spark program asks. */
export const sourceQuestion = z.object({
  feed: streamName,
  /** The micro-batch that Spark processes, or null if the Spark program only shows that it is alive. */
  batch: z.object({ query: queryId, number: count }).nullable(),
  /** True if the Spark program sends the batch already, and waits until a checkpoint contains it. */
  isSending: z.boolean(),
  /** True if no batch follows. */
  hasEnded: z.boolean(),
});
export type SourceQuestion = z.infer<typeof sourceQuestion>;

/** What a program asks after it has read a micro-batch, and before the first one. */
export const readerQuestion = z.object({
  feed: streamName,
  /** The query to which the numbers belong, or null if the program has not read a batch and has no checkpoint. */
  query: queryId.nullable(),
  /** Number of the batch that the program reads next. */
  next: count,
  /** A checkpoint contains all batches with lower numbers. */
  saved: count,
});
export type ReaderQuestion = z.infer<typeof readerQuestion>;

/** A micro-batch to read, and the name of its feed. */
export interface MicroBatch {
  readonly query: string;
  readonly number: number;
  readonly feed: string;
}

/**
 * A feed that consists of the micro-batches of one query of Spark's Structured Streaming. Each batch is a partitioned feed of its own. Spark
 * sends a batch only after a checkpoint contains the previous one. Not stored: the Spark program and the programs repeat what they know.
 */
export class FeedStream {
  readonly #name: string;
  #query: string | null = null;
  #batch: number | null = null;
  /** By query: a checkpoint contains all batches with lower numbers. A program may know the query before Spark has named it. */
  readonly #savedOf = new Map<string, number>();
  #hasReader = false;
  #hasEnded = false;
  readonly source: SourceLife;

  /** @param now time in ms */
  constructor(name: string, now: number) {
    this.#name = name;
    this.source = new SourceLife(now);
  }

  /** Changes whenever the answer to a waiting request may change. */
  get revision(): string {
    return JSON.stringify([this.#query, this.#batch, this.#saved, this.#hasReader, this.#hasEnded]);
  }

  /** The batch that Spark processes, or null before the first one. */
  get batch(): MicroBatch | null {
    const query = this.#query;
    const number = this.#batch;
    return query === null || number === null ? null : { query, number, feed: this.#feedOf(number) };
  }

  /**
   * Returns the name of the feed to which the source sends its batch, or 'saved' if a checkpoint contains the batch.
   * @throws TonyError USAGE if another query has sent a batch
   */
  ask({ batch, isSending, hasEnded }: SourceQuestion, now: number): 'alive' | 'saved' | 'wait' | Pick<MicroBatch, 'feed'> {
    this.source.driverAsked(now);
    this.#hasEnded ||= hasEnded;
    if (batch === null) {
      return 'alive';
    }
    this.#knowQuery(batch.query);
    this.#batch = batch.number;
    if (this.#hasReader && batch.number < this.#saved) {
      return 'saved';
    }
    // Before a program has asked, a checkpoint may contain the batch.
    return isSending || !this.#hasReader ? 'wait' : { feed: this.#feedOf(batch.number) };
  }

  /**
   * Returns the batch that a program reads next, or 'over' if no batch follows.
   * @param reachableSince see SourceLife.require
   * @throws TonyError FEED_LOST if the Spark program is lost, or if the program has resumed before a batch that Spark has committed
   */
  next({ query, next, saved }: ReaderQuestion, now: number, reachableSince: number): MicroBatch | 'over' | 'wait' {
    this.#hasReader = true;
    if (query !== null) {
      this.#savedOf.set(query, Math.max(this.#savedOf.get(query) ?? 0, saved));
    }
    if (next < this.#saved && (query ?? this.#query) === this.#query) {
      throw new TonyError(
        'FEED_LOST',
        `the program reads the stream ${this.#name} from micro-batch ${next} on, but an earlier checkpoint contained all before ${this.#saved}, which Spark does not send again`,
        {
          hint: 'Load the newest checkpoint before the first batch. If it is lost or damaged, start the query with a new checkpointLocation.',
        },
      );
    }
    const { batch } = this;
    if (batch !== null && batch.number >= Math.max(this.#saved, query === this.#query ? next : 0)) {
      return batch;
    }
    if (this.#hasEnded && (batch === null || batch.number < this.#saved)) {
      return 'over';
    }
    this.source.require(`the stream ${this.#name}`, reachableSince, now);
    return 'wait';
  }

  get #saved(): number {
    return this.#savedOf.get(this.#query ?? '') ?? 0;
  }

  #feedOf(batch: number): string {
    return `${batchPrefix(this.#name)}${batch}`;
  }

  #knowQuery(query: string): void {
    this.#query ??= query;
    if (this.#query !== query) {
      throw new TonyError('USAGE', `another query of Spark already sends the stream ${this.#name}`, {
        hint: 'Use another name for each query, and start a new job for a query with a new checkpointLocation.',
      });
    }
  }
}
