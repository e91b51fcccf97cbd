import * as z from 'zod';
import { feedOpening } from '../../../contract/partitions/partition-feed.ts';
import { readTask } from '../../../contract/process/task.ts';
import { PIECES_KIND, PIECES_NEXT, PIECES_NEXT_BATCH, PIECES_OPEN } from '../../../contract/services/service-names.ts';
import { Services } from '../../../contract/services/services.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import type { Share } from './share.ts';

const count = z.number().int().nonnegative();
const openingSchema = feedOpening.pick({ format: true, partitions: true, epochs: true, seed: true });
export type PieceOpening = z.infer<typeof openingSchema>;

const pieceSchema = z.object({ path: z.string(), epoch: count, partition: count, records: count, skip: count });
/** A file with records of one partition. `skip` is the number of its records that come before the reader's position. */
export type FramePiece = z.infer<typeof pieceSchema>;

const batchSchema = z.object({ query: z.string(), number: count, feed: z.string() });
/** What the ranks have read: the job answers with the next micro-batch when a checkpoint contains all micro-batches before it. */
export interface StreamQuestion {
  readonly query: string | null;
  /** Number of the micro-batch that this rank reads next. */
  readonly next: number;
  /** A checkpoint contains all micro-batches with lower numbers. */
  readonly saved: number;
}

/** A micro-batch of a query of Spark, and its pieces. */
export interface StreamBatch {
  readonly query: string;
  readonly number: number;
  readonly pieces: PieceSource;
}

export interface PiecePosition {
  readonly epoch: number;
  /** Number of records of the epoch before the position. */
  readonly records: number;
}

/** Where a DataFrame comes from: files that one rank receives. A stream consists of micro-batches, each of which has its own pieces. */
export interface PieceSource {
  /** Waits until a source has opened the feed. */
  isStream(signal: AbortSignal): Promise<boolean>;
  /** Waits for the next micro-batch of a stream. Returns null at the end of the stream. */
  nextBatch(question: StreamQuestion, signal: AbortSignal): Promise<StreamBatch | null>;
  /** Returns what the source of the feed has declared. Waits until it has done so. */
  opening(signal: AbortSignal): Promise<PieceOpening>;
  /** Yields the pieces from a position on, in all remaining epochs. The request for a piece tells that the previous one has been read. */
  pieces(position: PiecePosition, signal: AbortSignal): AsyncGenerator<FramePiece, void>;
  /** @throws TonyError USAGE if this process cannot read this share. */
  check(share: Share): void;
}

/** Asks this task's executor for the pieces of its rank. One reader at a time can read a feed. */
export class TaskPieces implements PieceSource {
  readonly #feed: string;
  #kind: Promise<'partitions' | 'stream'> | null = null;
  #opening: Promise<PieceOpening> | null = null;

  constructor(feed: string) {
    this.#feed = feed;
  }

  check({ index, count: shares }: Share): void {
    const { rank, worldSize } = this.#task();
    if (shares > 1 && (index !== rank || shares !== worldSize)) {
      throw new TonyError('USAGE', `rank ${rank} of ${worldSize} cannot read share ${index} of ${shares} of the feed ${this.#feed}`, {
        hint: 'A rank receives only its own records. Use read({ share: cluster.share }), and a fixed number of instances.',
      });
    }
  }

  async isStream(signal: AbortSignal): Promise<boolean> {
    this.#kind ??= this.#findKind(signal);
    try {
      return (await this.#kind) === 'stream';
    } catch (error) {
      this.#kind = null;
      throw error;
    }
  }

  async nextBatch(question: StreamQuestion, signal: AbortSignal): Promise<StreamBatch | null> {
    const { services, rank } = this.#task();
    for (;;) {
      const { answer } = await services.ask(PIECES_NEXT_BATCH, { feed: this.#feed, rank, ...question }, signal);
      if (answer === 'over') {
        return null;
      }
      if (answer !== 'wait') {
        const { feed, ...batch } = batchSchema.parse(answer);
        return { ...batch, pieces: new TaskPieces(feed) };
      }
    }
  }

  async opening(signal: AbortSignal): Promise<PieceOpening> {
    this.#opening ??= this.#findOpening(signal);
    try {
      return await this.#opening;
    } catch (error) {
      this.#opening = null;
      throw error;
    }
  }

  async *pieces(position: PiecePosition, signal: AbortSignal): AsyncGenerator<FramePiece, void> {
    const { services, rank } = this.#task();
    await this.#open({ ...position }, signal);
    for (let at = 0; ; ) {
      const { answer } = await services.ask(PIECES_NEXT, { feed: this.#feed, rank, at }, signal);
      if (answer === 'over') {
        return;
      }
      if (answer !== 'wait') {
        at++;
        yield pieceSchema.parse(answer);
      }
    }
  }

  async #findKind(signal: AbortSignal): Promise<'partitions' | 'stream'> {
    const { services, worldSize } = this.#task();
    const feed = this.#feed;
    for (;;) {
      const { answer: kind } = await services.ask(PIECES_KIND, { feed, worldSize }, signal);
      if (kind === 'records') {
        throw new TonyError('USAGE', `the feed ${feed} contains single records, not a DataFrame`, {
          hint: `Read it with data.fromFeed('${feed}').`,
        });
      }
      if (kind === 'partitions' || kind === 'stream') {
        return kind;
      }
    }
  }

  async #findOpening(signal: AbortSignal): Promise<PieceOpening> {
    await this.isStream(signal);
    const feed = this.#feed;
    // Without a position, the executor requests no records.
    const opening = await this.#open(null, signal);
    if (opening.format !== 'arrow') {
      throw new TonyError('USAGE', `the feed ${feed} contains an RDD of Python objects, which a program in TypeScript cannot read`, {
        hint: 'Send a DataFrame: rdd.toDF([...]) in the Spark program.',
      });
    }
    return opening;
  }

  async #open(position: Json, signal: AbortSignal): Promise<PieceOpening> {
    const { services, rank, worldSize } = this.#task();
    const { answer } = await services.ask(PIECES_OPEN, { feed: this.#feed, rank, worldSize, position }, signal);
    return openingSchema.parse(answer);
  }

  #task(): { readonly services: Services; readonly rank: number; readonly worldSize: number } {
    const task = readTask();
    const services = Services.ofTask();
    if (task === null || services === null) {
      throw new TonyError('USAGE', `the feed ${this.#feed} can only be read in a job`, {
        hint: 'Submit the program as a job; --local runs it on this machine.',
      });
    }
    const { role, taskRank: rank, taskWorldSize: worldSize } = task;
    if (rank === null) {
      throw new TonyError('USAGE', `the tasks of role ${role} have no rank, so they cannot read the feed ${this.#feed}`, {
        hint: 'Read the feed in a role of kind gang, such as worker.',
      });
    }
    return { services, rank, worldSize };
  }
}
