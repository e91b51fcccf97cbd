import { readTask } from '../../../contract/process/task.ts';
import { FEED_LEAVE, FEED_TAKE, PIECES_KIND } from '../../../contract/services/service-names.ts';
import { type ServiceReply, Services } from '../../../contract/services/services.ts';
import { anySignal } from '../../../platform/async/any-signal.ts';
import { checkOptionValues, isWhole } from '../../../platform/check-options.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import { type DatasetNode, type ReadContext, refuseSplits } from '../reading/read-context.ts';
import type { Chunk, ChunkStream } from '../reading/stream.ts';
import { Dataset } from './dataset.ts';

export interface FeedSourceOptions {
  /** Number of producers that must connect before the feed can end. The feed ends when all connected producers have ended. Default: 1. */
  readonly producers?: number;
}

/**
 * Time limit in ms for returning records that this process has not used. After this time, other workers get these records only when the
 * process exits.
 */
const LEAVE_MS = 2_000;

/** Number of feed readers that this process has opened. Each reader's name contains the number, so names are unique. */
let openedReaders = 0;

/**
 * Yields records sent to the running job by other processes with `tony-ts feed` or `openFeed`. Each record goes to the next worker that
 * requests records. A feed can be read only once, in one epoch, and ends when its producers have ended. Checkpoints do not contain a
 * position in the feed, so after a restart, training continues with the records that no worker has received.
 * @param name may contain letters, digits, dots, underscores and dashes.
 * @throws TonyError USAGE if a program reads the feed outside a job.
 */
export function fromFeed(name: string, options: FeedSourceOptions = {}): Dataset<Buffer> {
  checkOptionValues('fromFeed', options, { producers: isWhole(1) });
  const { producers = 1 } = options;
  if (!/^[\w.-]{1,100}$/.test(name)) {
    throw new TonyError('USAGE', `"${name}" is not a valid feed name: use letters, digits, dots, underscores and dashes`);
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
        context.onNotice(`the feed ${feed} continues with the unread records; it does not replay records read since the checkpoint`);
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
 * Reads a feed's records. Requests the next records while the program uses the current ones. Each request also confirms the records from
 * the previous response. The ApplicationMaster never delivers confirmed records again, because this process may have used them.
 */
class FeedStream implements ChunkStream<Buffer> {
  readonly #services: Services;
  readonly #signal: AbortSignal;
  readonly #closing = new AbortController();
  readonly #request: FeedRequest;
  #at = 0;
  #coming: Promise<ServiceReply> | null = null;
  #isChecked = false;
  #isOver = false;

  constructor(services: Services, { signal }: ReadContext, request: FeedRequest) {
    this.#services = services;
    this.#signal = anySignal([signal, this.#closing.signal]);
    this.#request = request;
  }

  async next(): Promise<Chunk<Buffer> | null> {
    if (!this.#isChecked) {
      await this.#refusePartitions();
      this.#isChecked = true;
    }
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

  /**
   * Waits for the first producer. A Spark program does not send single records, and waits until a task asks for its feed: without this
   * check, both programs would wait forever.
   */
  async #refusePartitions(): Promise<void> {
    const { feed } = this.#request;
    const question = { feed, worldSize: readTask()?.taskWorldSize || 1 };
    for (let kind: Json = 'wait'; kind === 'wait'; ) {
      ({ answer: kind } = await this.#services.ask(PIECES_KIND, question, this.#signal));
      if (kind === 'partitions' || kind === 'stream') {
        throw new TonyError('USAGE', `the feed ${feed} contains the partitions of a Spark program, not single records`, {
          hint: `Read a DataFrame with data.fromDataFrame('${feed}').`,
        });
      }
    }
  }

  #ask(): Promise<ServiceReply> {
    const asking = this.#services.ask(FEED_TAKE, { ...this.#request, at: this.#at }, this.#signal);
    // If the stream is closed first, no code awaits `asking`, so without this handler, a rejection would crash the process.
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
