import { anySignal } from '../../conf/any-signal.ts';
import { TonyError } from '../../conf/errors.ts';
import { FEED_LEAVE, FEED_TAKE } from '../service-names.ts';
import { type ServiceReply, Services } from '../services.ts';
import { readTask } from '../task.ts';
import { Dataset } from './dataset.ts';
import { type DatasetNode, type ReadContext, refuseSplits } from './read-context.ts';
import type { Chunk, ChunkStream, Json } from './stream.ts';

export interface FeedOptions {
  /** The feed ends when so many producers (1 unless told) have come and all that have come have ended. */
  readonly producers?: number;
}

/** What was not taken goes to others when this process ends, if they have not heard before. */
const LEAVE_MS = 2_000;

/** How often this process has begun to read a feed: each is a reader of its own. */
let readings = 0;

/**
 * Records that other processes put into this job while it runs: `tony-ts feed`, or `openFeed` of the library. Each goes to one of the workers,
 * to whoever asks for more. It can be read once, in one epoch, and ends when its producers have said so. Where a reader stands is not in
 * checkpoints: a restarted training goes on with what has not been taken.
 *
 * @param name letters, digits, points and dashes.
 * @throws TonyError USAGE outside of a job, while it is read.
 */
export function fromFeed(name: string, options: FeedOptions = {}): Dataset<Buffer> {
  const { producers = 1 } = options;
  if (!/^[\w.-]{1,100}$/.test(name))
    throw new TonyError('DATA_INVALID', `"${name}" is no name of a feed: it has letters, digits, points and dashes`);
  if (!Number.isInteger(producers) || producers < 1)
    throw new TonyError('DATA_INVALID', `producers is ${producers}; it must be at least 1`);
  return new Dataset(new FeedNode(name, producers));
}

class FeedNode implements DatasetNode<Buffer> {
  readonly #name: string;
  readonly #producers: number;

  constructor(name: string, producers: number) {
    this.#name = name;
    this.#producers = producers;
  }

  open(context: ReadContext, from: Json): ChunkStream<Buffer> {
    refuseSplits(context, 'fromFeed()', 'its records come from outside');
    if (context.passes.some((pass) => pass > 0) || from !== null) {
      throw new TonyError('USAGE', `the feed ${this.#name} cannot be read a second time`, {
        hint: 'Train for one epoch (epochs: 1), or say with batchesPerEpoch how long one is; leave repeat() out.',
      });
    }
    const services = Services.ofTask();
    if (services === null) {
      throw new TonyError('USAGE', `the feed ${this.#name} can only be read in a job`, {
        hint: 'Submit the program, with --local if you like.',
      });
    }
    context.onUnrepeatable?.();
    if ((readTask()?.generation ?? 1) > 1) {
      context.onNotice(`the feed ${this.#name} goes on with what nobody has taken: what was taken since the checkpoint is not given again`);
    }
    return new FeedStream(services, context, {
      feed: this.#name,
      producers: this.#producers,
      reader: `${context.share.index}.${readings++}`,
    });
  }
}

interface Question {
  readonly feed: string;
  readonly producers: number;
  readonly reader: string;
}

/**
 * Asks for the next records as soon as some have come: that tells the ApplicationMaster that these have. So when this process dies nothing that it
 * may have used is given again.
 */
class FeedStream implements ChunkStream<Buffer> {
  readonly #services: Services;
  readonly #signal: AbortSignal;
  readonly #closing = new AbortController();
  readonly #question: Question;
  #at = 0;
  #coming: Promise<ServiceReply> | null = null;
  #isOver = false;

  constructor(services: Services, { signal }: ReadContext, question: Question) {
    this.#services = services;
    this.#signal = anySignal([signal, this.#closing.signal]);
    this.#question = question;
  }

  async next(): Promise<Chunk<Buffer> | null> {
    while (!this.#isOver) {
      this.#coming ??= this.#ask();
      const { answer, body } = await this.#coming;
      this.#coming = null;
      if (answer === 'over') this.#isOver = true;
      else if (answer !== 'wait') {
        this.#at++;
        this.#coming = this.#ask();
        const items = recordsIn(body, (answer as { lengths: readonly number[] }).lengths);
        if (items.length > 0) return { items, from: null, bytes: body.length };
      }
    }
    return null;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    if (this.#isOver || this.#coming === null) return;
    this.#isOver = true;
    const { feed, reader } = this.#question;
    await this.#services.ask(FEED_LEAVE, { feed, reader }, AbortSignal.timeout(LEAVE_MS)).catch(() => {});
  }

  #ask(): Promise<ServiceReply> {
    const asking = this.#services.ask(FEED_TAKE, { ...this.#question, at: this.#at }, this.#signal);
    // Heard when it is awaited, unless the stream is closed before.
    asking.catch(() => {});
    return asking;
  }
}

function recordsIn(body: Buffer, lengths: readonly number[]): Buffer[] {
  let offset = 0;
  return lengths.map((length) => {
    offset += length;
    return body.subarray(offset - length, offset);
  });
}
