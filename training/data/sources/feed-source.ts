import { anySignal } from '../../../platform/any-signal.ts';
import { wholeNumber } from '../../../platform/check-options.ts';
import { TonyError } from '../../../platform/errors.ts';
import { FEED_LEAVE, FEED_TAKE } from '../../process/service-names.ts';
import { type ServiceReply, Services } from '../../process/services.ts';
import { readTask } from '../../process/task.ts';
import { type DatasetNode, type ReadContext, refuseSplits } from '../reading/read-context.ts';
import type { Chunk, ChunkStream } from '../reading/stream.ts';
import { Dataset } from './dataset.ts';

export interface FeedOptions {
  /**
   * The expected number of producers (1 by default). The feed ends after this many producers have connected and all connected producers
   * have ended.
   */
  readonly producers?: number;
}

/**
 * The time limit in ms for returning unused records. If that fails, other workers get the records after this process has exited.
 */
const LEAVE_MS = 2_000;

/** The number of feed readers that this process has opened. It makes each reader name unique. */
let openedReaders = 0;

/**
 * Yields records that other processes send to the running job with `tony-ts feed` or the library's `openFeed`. Each record goes to one
 * worker: the next worker that requests records. A feed can be read once, in one epoch, and ends when its producers have ended.
 * Checkpoints contain no feed position: after a restart, training continues with undelivered records.
 * @param name letters, digits, dots, underscores and dashes.
 * @throws TonyError USAGE when a program reads the dataset outside a job.
 */
export function fromFeed(name: string, options: FeedOptions = {}): Dataset<Buffer> {
  const producers = wholeNumber('producers', options.producers ?? 1);
  if (!/^[\w.-]{1,100}$/.test(name)) {
    throw new TonyError('DATA_INVALID', `"${name}" is not a valid feed name: use letters, digits, dots, underscores and dashes`);
  }
  return new Dataset(feedNode(name, producers));
}

function feedNode(feed: string, producers: number): DatasetNode<Buffer> {
  return {
    open(context, from) {
      refuseSplits(context, 'fromFeed()', 'its records come from other processes');
      if (context.passes.some((pass) => pass > 0) || from !== null) {
        throw new TonyError('USAGE', `the feed ${feed} cannot be read twice`, {
          hint: 'Train for one epoch (epochs: 1), or set the length of an epoch with stepsPerEpoch; remove repeat().',
        });
      }
      const services = Services.ofTask();
      if (services === null) {
        throw new TonyError('USAGE', `the feed ${feed} can only be read in a job`, {
          hint: 'Submit the program as a job; --local runs it on this machine.',
        });
      }
      context.onUnrepeatable?.();
      if ((readTask()?.generation ?? 1) > 1) {
        context.onNotice(`the feed ${feed} continues with the unread records; it does not repeat records read since the checkpoint`);
      }
      return new FeedStream(services, context, { feed, producers, reader: `${context.share.index}.${openedReaders++}` });
    },
  };
}

interface FeedRequest {
  readonly feed: string;
  readonly producers: number;
  readonly reader: string;
}

/**
 * Waits for the next records. The request also acknowledges the previous records, so the ApplicationMaster never redelivers a record that
 * this process may have used.
 */
class FeedStream implements ChunkStream<Buffer> {
  readonly #services: Services;
  readonly #signal: AbortSignal;
  readonly #closing = new AbortController();
  readonly #request: FeedRequest;
  #at = 0;
  #coming: Promise<ServiceReply> | null = null;
  #isOver = false;

  constructor(services: Services, { signal }: ReadContext, request: FeedRequest) {
    this.#services = services;
    this.#signal = anySignal([signal, this.#closing.signal]);
    this.#request = request;
  }

  async next(): Promise<Chunk<Buffer> | null> {
    while (!this.#isOver) {
      this.#coming ??= this.#ask();
      const { answer, body } = await this.#coming;
      this.#coming = null;
      if (answer === 'over') {
        this.#isOver = true;
      } else if (answer !== 'wait') {
        this.#at++;
        this.#coming = this.#ask();
        const items = recordsIn(body, (answer as { lengths: readonly number[] }).lengths);
        if (items.length > 0) {
          return { items, from: null, bytes: body.length };
        }
      }
    }
    return null;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    if (this.#isOver || this.#coming === null) {
      return;
    }
    this.#isOver = true;
    const { feed, reader } = this.#request;
    await this.#services.ask(FEED_LEAVE, { feed, reader }, AbortSignal.timeout(LEAVE_MS)).catch(() => {});
  }

  #ask(): Promise<ServiceReply> {
    const asking = this.#services.ask(FEED_TAKE, { ...this.#request, at: this.#at }, this.#signal);
    // Marks a rejection as handled: if the stream is closed first, no code awaits this promise.
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
