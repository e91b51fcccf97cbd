import type * as tfjs from '@tensorflow/tfjs';
import * as z from 'zod';
import { withTimeout } from '../../platform/deadline.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Json } from '../../platform/json-value.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Peers } from '../ring/peers.ts';
import type { BatchSource, BatchStep } from './batch-source.ts';
import { type Batch, prepareBatch, type TrainingData } from './data.ts';
import { disposeElement } from './reading/dispose.ts';
import type { SplitAssigner } from './reading/split-assigner.ts';
import type { Dataset } from './sources/dataset.ts';
import type { DatasetReader } from './sources/dataset-reader.ts';
import { countExamplesOf, type ModelNames, tensorsOf } from './training-element.ts';

export interface DatasetBatchSourceOptions {
  readonly tf: typeof tfjs;
  readonly peers: Peers;
  /** The storage that contains the dataset; defaults to the job's storage. */
  readonly storage?: Storage;
  readonly seed: number;
  readonly names?: ModelNames;
  /** Returns the number of examples in a batch. By default, a batch has the form `{ xs, ys }`. */
  readonly countExamples?: (element: unknown) => number;
  readonly prepare?: TrainingData['prepare'];
  /** The stored position from which to resume; null to start at the beginning. */
  readonly position: Json;
  /** Assigns dispatched splits; defaults to the job's ApplicationMaster. */
  readonly splits?: SplitAssigner;
  readonly onNotice: (message: string) => void;
}

const PREFETCH_BATCHES = 2;
const REPORTED_DAMAGES = 3;
const NO_NAMES: ModelNames = { inputs: [], outputs: [] };
/**
 * The interval, in ms, at which the ranks exchange messages while at least one rank is waiting for data. The other ranks would treat a
 * silent rank as lost.
 */
const ROUND_MS = 10_000;

/**
 * The position of all ranks in a dataset. At the start of a pass, the dataset is divided into one share per rank. If the number of ranks
 * changes during the pass, the new ranks continue the same shares. Each element is therefore used once per pass.
 */
const positionSchema = z.object({
  pass: z.number().int().nonnegative(),
  shares: z.number().int().positive(),
  /** The state of each share's reader; null for a share that no rank has read yet. */
  states: z.array(z.json()),
});

export interface TakenBatch {
  /** undefined if this rank has no batch in this step. */
  readonly element: unknown;
  readonly count: number;
  /** The number of examples in this step, summed over all ranks. */
  readonly used: number;
  readonly ended: boolean;
  release(): void;
}

interface OpenShare {
  readonly index: number;
  readonly reader: DatasetReader<unknown>;
  /** The number of ranks that read the share. Each rank uses every `readers`-th batch, starting with batch `place`. */
  readonly readers: number;
  readonly place: number;
}

/**
 * Returns the shares that a rank reads. With fewer ranks than shares, a rank reads several shares. With more ranks than shares, several
 * ranks read the same share.
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
 * Distributes a dataset among the ranks; each element goes to one rank. Before each step, the ranks exchange how many examples they have
 * and whether more examples follow.
 */
export class DatasetBatchSource implements BatchSource {
  readonly #dataset: Dataset<unknown>;
  readonly #options: DatasetBatchSourceOptions;
  #pass = 0;
  #shares: number;
  #states: readonly Json[] = [];
  #open: OpenShare[] | null = null;
  /** The number of reads so far. This number modulo the number of open shares selects the next share. */
  #turn = 0;
  #damages = 0;
  /**
   * Used only by workers that step independently: the position of this worker's shares at the end of the previous pass. Other workers may
   * still be reading that pass.
   */
  #before: { readonly before?: Json } = {};
  /**
   * The three numbers that the ranks sum before each step. Element 0: the number of examples in this rank's batch. Element 1: 1 if more
   * examples follow. Element 2: 1 if the rank is still waiting for data.
   */
  readonly #news: Float32Array;

  constructor(dataset: Dataset<unknown>, options: DatasetBatchSourceOptions) {
    this.#dataset = dataset.prefetch(PREFETCH_BATCHES);
    this.#options = options;
    this.#shares = options.peers.worldSize;
    this.#news = new Float32Array(3);
    if (options.position !== null) {
      const position = positionSchema.safeParse(options.position);
      if (!position.success) {
        throw new TonyError('CHECKPOINT_MISFIT', 'the checkpoint contains no matching dataset position');
      }
      this.#pass = position.data.pass;
      this.#shares = position.data.shares;
      this.#states = position.data.states as Json[];
    }
  }

  async next(): Promise<BatchStep> {
    const { element, count, used, ended, release } = await this.take();
    return { batch: count === 0 ? null : () => this.#batchOf(element), weight: used === 0 ? 0 : count / used, used, ended, release };
  }

  /** Takes the next step and returns this rank's batch as an unconverted dataset element. */
  async take(): Promise<TakenBatch> {
    const { stepsTogether, worldSize } = this.#options.peers;
    let { element, count, used, more } = await this.#agree();
    while (!stepsTogether && used === 0 && more > 0) {
      // Another rank gets the next batch of this share, so this rank takes no step and tries again.
      ({ element, count, used, more } = await this.#agree());
    }
    if (used === 0 && !stepsTogether && worldSize > 1) {
      // This rank gets no batch in this pass, for example because there are fewer batches than workers.
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
   * Waits until every rank has its next batch or has reached the end of its data. The wait has no time limit, because data may arrive
   * slowly.
   */
  async #agree(): Promise<{ element: unknown; count: number; used: number; more: number }> {
    const { peers } = this.#options;
    const coming = this.#prepare();
    // Marks a rejection as handled: if `peers.sum` fails first, no code awaits this promise.
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

  /**
   * Opens all shares concurrently, because the dispatcher assigns splits only after the readers of all shares have registered their logs.
   */
  async #openAll(): Promise<OpenShare[]> {
    const open = this.#openShares();
    await Promise.all(open.map(({ reader }) => reader.hasNext()));
    return open;
  }

  async position(): Promise<Json> {
    const { peers } = this.#options;
    if (this.#open === null) {
      return { pass: this.#pass, shares: this.#shares, states: this.#states, ...this.#before };
    }
    const own = this.#open.filter(({ place }) => place === 0).map(({ index, reader }) => [index, reader.state()] as const);
    const all = await peers.gather(Buffer.from(JSON.stringify(own)));
    const states = new Array<Json>(this.#shares).fill(null);
    for (const bytes of all) {
      for (const [index, state] of JSON.parse(Buffer.from(bytes).toString('utf8')) as [number, Json][]) {
        states[index] = state;
      }
    }
    // The reader of a feed has no state. After a restart, the reader continues with the next records of the feed.
    if (peers.stepsTogether ? states.includes(null) : own.some(([, state]) => state === null)) {
      return null;
    }
    return { pass: this.#pass, shares: this.#shares, states, ...this.#before };
  }

  async close(): Promise<void> {
    const open = this.#open ?? [];
    this.#open = [];
    await Promise.all(open.map(({ reader }) => reader.return()));
  }

  #openShares(): OpenShare[] {
    const { peers, storage, splits, seed, onNotice } = this.#options;
    return sharesOfRank(peers.rank, peers.worldSize, this.#shares).map((share) => ({
      ...share,
      reader: this.#dataset.read({
        ...(storage === undefined ? {} : { storage }),
        ...(splits === undefined ? {} : { splits }),
        share: { index: share.index, count: this.#shares },
        seed,
        epoch: this.#pass,
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
    return prepareBatch(tensorsOf(tf, element, names), prepare);
  }
}
