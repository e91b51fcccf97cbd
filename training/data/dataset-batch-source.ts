import type * as tfjs from '@tensorflow/tfjs';
import * as z from 'zod';
import { withTimeout } from '../../platform/async/deadline.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Json } from '../../platform/json-value.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Peers } from '../ring/peers.ts';
import { waitForAll } from '../ring/wait-for-all.ts';
import type { BatchSource, BatchStep } from './batch-source.ts';
import { type Batch, prepareBatch, type TrainingData } from './data.ts';
import { disposeElement } from './reading/dispose.ts';
import { InputLists, type ListNames, listNames } from './reading/input-lists.ts';
import type { SplitAssigner } from './reading/split-assigner.ts';
import { StreamPlace, storedPlace } from './reading/stream-place.ts';
import type { Dataset } from './sources/dataset.ts';
import type { DatasetReader } from './sources/dataset-reader.ts';
import { countExamplesOf, type ModelNames, refuseSeparateColumns, tensorsOf } from './training-element.ts';

export interface DatasetBatchSourceOptions {
  readonly tf: typeof tfjs;
  readonly peers: Peers;
  /** Storage that contains the dataset. Default: the job's storage. */
  readonly storage?: Storage;
  readonly seed: number;
  readonly names?: ModelNames;
  /** Returns the number of examples in a batch. By default, the batch must have the form `{ xs, ys }`. */
  readonly countExamples?: (element: unknown) => number;
  readonly prepare?: TrainingData['prepare'];
  /** Position from a checkpoint at which to resume, or null to start at the beginning. */
  readonly position: Json;
  /** The lists of files that all ranks share. Default: the job's lists. */
  readonly lists?: InputLists;
  /** Assigns the splits of dispatched data. Default: the job's ApplicationMaster. */
  readonly splits?: SplitAssigner;
  readonly onNotice: (message: string) => void;
}

const PREFETCH_BATCHES = 2;
const REPORTED_DAMAGES = 3;
const NO_NAMES: ModelNames = { inputs: [], outputs: [] };
/**
 * Interval in ms at which the ranks exchange messages while a rank waits for data. Without these messages, the ranks would treat each other
 * as lost.
 */
const ROUND_MS = 10_000;

/**
 * Position of all ranks in a dataset. When a pass begins, the dataset is divided into one share per rank. If the job restarts with a
 * different number of ranks during the pass, the new ranks continue these shares, so each element is used only once in the pass.
 */
const positionSchema = z.object({
  pass: z.number().int().nonnegative(),
  shares: z.number().int().positive(),
  /** State of each share's reader, or null for a share that no rank has read yet. */
  states: z.array(z.json()),
  lists: listNames.optional(),
  stream: storedPlace.optional(),
});

export interface TakenBatch {
  /** This rank's batch, or undefined if this rank has no batch in this step. */
  readonly element: unknown;
  readonly count: number;
  /** Number of examples in this step, summed over all ranks. */
  readonly used: number;
  readonly ended: boolean;
  release(): void;
}

interface OpenShare {
  readonly index: number;
  readonly reader: DatasetReader<unknown>;
  /** Number of ranks that read the share. This rank uses every `readers`-th batch of the share, beginning with batch number `place`. */
  readonly readers: number;
  readonly place: number;
}

/**
 * Returns the shares that a rank reads. If there are fewer ranks than shares, a rank reads several shares. If there are more ranks than
 * shares, several ranks read the same share.
 */
export function sharesOfRank(rank: number, ranks: number, shares: number): { index: number; readers: number; place: number }[] {
  if (ranks <= shares) {
    return Array.from({ length: shares }, (_, index) => index)
      .filter((index) => index % ranks === rank)
      .map((index) => ({ index, readers: 1, place: 0 }));
  }
  const index = rank % shares;
  return [{ index, readers: Math.floor((ranks - 1 - index) / shares) + 1, place: Math.floor(rank / shares) }];
}

/**
 * Supplies the ranks with batches from a dataset. Each element goes to only one rank. Before each step, the ranks exchange the number of
 * examples in their batches, and whether more examples follow.
 */
export class DatasetBatchSource implements BatchSource {
  readonly #dataset: Dataset<unknown>;
  readonly #options: DatasetBatchSourceOptions;
  #pass = 0;
  /** Number of passes that were completed before a restart. 0 after the first reader has been opened. */
  #missedPasses = 0;
  #shares: number;
  #states: readonly Json[] = [];
  #open: OpenShare[] | null = null;
  readonly #lists: InputLists;
  readonly #stream: StreamPlace;
  /** Number of reads so far, which selects the open share to read next. */
  #turn = 0;
  #damages = 0;
  /**
   * Position of this worker's shares at the end of the previous pass, if workers step independently. Checkpoints need this position while
   * other workers are still in the previous pass.
   */
  #before: { readonly before?: Json } = {};
  /**
   * The numbers summed over the ranks before each step: the number of examples in the rank's batch; 1 if more examples follow; 1 if the
   * rank is still waiting for data.
   */
  readonly #news: Float32Array;

  constructor(dataset: Dataset<unknown>, options: DatasetBatchSourceOptions) {
    this.#dataset = dataset.prefetch(PREFETCH_BATCHES);
    this.#options = options;
    this.#shares = options.peers.worldSize;
    this.#news = new Float32Array(3);
    let pinned: ListNames = {};
    let stream: z.infer<typeof storedPlace> | null = null;
    if (options.position !== null) {
      const position = positionSchema.safeParse(options.position);
      if (!position.success) {
        throw new TonyError('CHECKPOINT_MISMATCH', 'the checkpoint contains no matching dataset position');
      }
      this.#pass = position.data.pass;
      this.#missedPasses = position.data.pass;
      this.#shares = position.data.shares;
      this.#states = position.data.states as Json[];
      pinned = position.data.lists ?? {};
      stream = position.data.stream ?? null;
    }
    this.#stream = new StreamPlace(stream);
    this.#lists = (options.lists ?? InputLists.ofJob()).view({ pinned });
  }

  get needsCheckpoint(): boolean {
    return this.#stream.needsCheckpoint;
  }

  /** Only a source that limits the number of passes may have ended. Other data begins when it is read. */
  async begin(stored: () => Promise<void>): Promise<boolean> {
    const { peers } = this.#options;
    if (this.#dataset.epochLimit === null || this.#open !== null) {
      return true;
    }
    const opening = async () => {
      await this.#stream.settle(peers.rank === 0, stored);
      this.#open = await this.#openAll();
    };
    await waitForAll(peers, opening());
    if (this.#stream.isOver) {
      await this.close();
      this.#open = null;
    }
    return !this.#stream.isOver;
  }

  async next(): Promise<BatchStep> {
    const { element, count, used, ended, release } = await this.take();
    return { batch: count === 0 ? null : () => this.#batchOf(element), weight: used === 0 ? 0 : count / used, used, ended, release };
  }

  /** Takes the next step. Returns this rank's batch as a dataset element, not yet converted to tensors. */
  async take(): Promise<TakenBatch> {
    const { stepsTogether, worldSize } = this.#options.peers;
    let { element, count, used, more } = await this.#agree();
    while (!stepsTogether && used === 0 && more > 0) {
      // The next batch of this share belongs to another rank, so this rank takes no step and tries again.
      ({ element, count, used, more } = await this.#agree());
    }
    if (used === 0 && !stepsTogether && worldSize > 1) {
      // This rank has no batch in this pass, for example because there are fewer batches than workers.
      await this.#endPass();
      return { element: undefined, count: 0, used: 0, ended: true, release: () => {} };
    }
    if (used === 0) {
      disposeElement(element);
      throw new TonyError('DATA_INVALID', 'the dataset has no examples', {
        hint: 'Check the names of its files, and that `filter` and `dropRemainder` do not drop all examples.',
      });
    }
    const ended = more === 0;
    if (ended) {
      await this.#endPass();
    }
    return { element, count, used, ended, release: () => disposeElement(element) };
  }

  /**
   * Waits until every rank has its next batch or has reached the end of its data. There is no time limit, because data may arrive slowly.
   */
  async #agree(): Promise<{ element: unknown; count: number; used: number; more: number }> {
    const { peers } = this.#options;
    const coming = this.#prepare();
    // If `peers.sum` fails first, no code awaits `coming`, so without this handler, a rejection would crash the process.
    coming.catch(() => {});
    const news = this.#news;
    for (;;) {
      const own = await withTimeout(coming, ROUND_MS, () => null);
      news.set(own === null ? [0, 0, 1] : [own.count, own.hasMore ? 1 : 0, 0]);
      await peers.sum(news);
      const [used = 0, more = 0, waiting = 0] = news;
      if (own !== null && waiting === 0) {
        return { element: own.element, count: own.count, used, more };
      }
    }
  }

  async #prepare(): Promise<{ element: unknown; count: number; hasMore: boolean }> {
    this.#open ??= await this.#openAll();
    const element = await this.#take(this.#open);
    const count = element === undefined ? 0 : (this.#options.countExamples ?? countExamplesOf)(element);
    let hasMore = false;
    for (const { reader } of this.#open) {
      hasMore ||= await reader.hasNext();
    }
    return { element, count, hasMore };
  }

  /** Opens all shares concurrently, because no share gets a split before the readers of all shares have registered with the dispatcher. */
  async #openAll(): Promise<OpenShare[]> {
    const open = this.#openShares();
    await Promise.all(open.map(({ reader }) => reader.hasNext()));
    return open;
  }

  async position(): Promise<Json> {
    const { peers } = this.#options;
    if (this.#open === null) {
      return this.#positionOf(this.#states, this.#lists.names);
    }
    const own = this.#open.filter(({ place }) => place === 0).map(({ index, reader }) => [index, reader.state()] as const);
    const all = await peers.gather(Buffer.from(JSON.stringify({ own, lists: this.#lists.names })));
    const states = new Array<Json>(this.#shares).fill(null);
    const lists: Record<string, string> = {};
    for (const bytes of all) {
      const rank = JSON.parse(Buffer.from(bytes).toString('utf8')) as { own: [number, Json][]; lists: ListNames };
      for (const [index, state] of rank.own) {
        states[index] = state;
      }
      Object.assign(lists, rank.lists);
    }
    // A feed's reader has no state. After a restart, the reader continues with the records that have not been read yet.
    if (peers.stepsTogether ? states.includes(null) : own.some(([, state]) => state === null)) {
      return null;
    }
    return this.#positionOf(states, lists);
  }

  #positionOf(states: readonly Json[], lists: ListNames): Json {
    const kept = Object.keys(lists).length === 0 ? {} : { lists };
    const stream = this.#stream.toStore();
    return { pass: this.#pass, shares: this.#shares, states, ...kept, ...(stream === undefined ? {} : { stream }), ...this.#before };
  }

  async close(): Promise<void> {
    const open = this.#open ?? [];
    this.#open = [];
    await Promise.all(open.map(({ reader }) => reader.return()));
  }

  #openShares(): OpenShare[] {
    const { peers, storage, splits, seed, onNotice } = this.#options;
    const missedPasses = this.#missedPasses;
    this.#missedPasses = 0;
    return sharesOfRank(peers.rank, peers.worldSize, this.#shares).map((share, index) => ({
      ...share,
      reader: this.#dataset.read({
        ...(storage === undefined ? {} : { storage }),
        ...(splits === undefined ? {} : { splits }),
        ...(peers.stepsTogether ? { stream: this.#stream } : {}),
        lists: this.#lists,
        share: { index: share.index, count: this.#shares },
        seed,
        epoch: this.#pass,
        // Several shares of a rank may come from the same source.
        missedPasses: index === 0 ? missedPasses : 0,
        state: this.#states[share.index] ?? null,
        states: this.#states,
        onNotice,
        onDamage: ({ message }) => {
          this.#damages++;
          if (this.#damages <= REPORTED_DAMAGES) {
            onNotice(`skipped: ${message}`);
          }
        },
      }),
    }));
  }

  async #take(open: readonly OpenShare[]): Promise<unknown> {
    for (let tries = 0; tries < open.length; tries++) {
      const { reader, readers, place } = open[this.#turn++ % open.length] as OpenShare;
      let own: unknown;
      let found = false;
      for (let reading = 0; reading < readers; reading++) {
        const { done, value } = (await reader.hasNext()) ? await reader.next() : { done: true, value: undefined };
        if (done) {
          break;
        }
        if (reading === place) {
          own = value;
        } else {
          disposeElement(value);
        }
        found = true;
      }
      if (found) {
        return own;
      }
    }
    return undefined;
  }

  async #endPass(): Promise<void> {
    if (!this.#options.peers.stepsTogether) {
      const own = (this.#open ?? []).filter(({ place }) => place === 0);
      const states = new Array<Json>(this.#shares).fill(null);
      for (const { index, reader } of own) {
        states[index] = reader.state();
      }
      this.#before = { before: { pass: this.#pass, shares: this.#shares, states } };
    }
    await this.close();
    this.#stream.end();
    if (this.#damages > REPORTED_DAMAGES) {
      this.#options.onNotice(`${this.#damages} damaged records of this epoch were skipped`);
    }
    this.#damages = 0;
    this.#open = null;
    this.#pass++;
    this.#shares = this.#options.peers.worldSize;
    this.#states = [];
    this.#turn = 0;
  }

  #batchOf(element: unknown): Batch {
    const { tf, names = NO_NAMES, prepare } = this.#options;
    if (prepare === undefined) {
      refuseSeparateColumns(element, names);
    }
    return prepareBatch(tensorsOf(tf, element, names), prepare);
  }
}
