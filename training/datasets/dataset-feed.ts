import type * as tfjs from '@tensorflow/tfjs';
import { z } from 'zod';
import { TonyError } from '../../conf/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { type Batch, prepareBatch, type TrainingData } from '../data.ts';
import type { Feed, FeedStep } from '../feed.ts';
import type { Peers } from '../peers.ts';
import type { Dataset } from './dataset.ts';
import type { DatasetReader } from './dataset-reader.ts';
import { disposeElement } from './dispose.ts';
import type { SplitGiver } from './split-giver.ts';
import type { Json } from './stream.ts';
import { countExamplesOf, type ModelNames, tensorsOf } from './training-element.ts';

export interface DatasetFeedOptions {
  readonly tf: typeof tfjs;
  readonly peers: Peers;
  /** That of the job unless told. */
  readonly storage?: Storage;
  readonly seed: number;
  /** Of the model's inputs and outputs. */
  readonly names: ModelNames;
  readonly prepare?: TrainingData['prepare'];
  /** From a checkpoint. */
  readonly position: Json;
  /** Of what is dispatched: that of the job unless told. */
  readonly splits?: SplitGiver;
  readonly onNotice: (message: string) => void;
}

/** Batches that are read ahead of the one that is computed, and the one behind it. */
const PREFETCH_BATCHES = 2;
const TOLD_DAMAGES = 3;
/** Ranks that have their data hear so often from those that have not: silence of a rank is taken for its loss. */
const ROUND_MS = 10_000;

/**
 * Where all ranks together stand in a dataset. A pass is dealt into as many shares as there were ranks when it began; each share is
 * read to its end by whoever is there, so each element is used once in a pass even when the number of ranks changes in the middle of it.
 */
const positionSchema = z.object({
  pass: z.number().int().nonnegative(),
  shares: z.number().int().positive(),
  /** Where the reader of each share stands; null: at its beginning. */
  states: z.array(z.json()),
});

/** A share that this rank reads, alone or together with others. */
interface OpenShare {
  readonly index: number;
  readonly reader: DatasetReader<unknown>;
  /** So many ranks read it; each uses every so-many-th batch. */
  readonly readers: number;
  readonly place: number;
}

/** Which shares a rank reads: with fewer ranks than shares several, with more ranks than shares one together with others. */
export function sharesOfRank(rank: number, ranks: number, shares: number): { index: number; readers: number; place: number }[] {
  if (ranks <= shares) {
    return Array.from({ length: shares }, (_, index) => index)
      .filter((index) => index % ranks === rank)
      .map((index) => ({ index, readers: 1, place: 0 }));
  }
  const index = rank % shares;
  return [{ index, readers: Math.floor((ranks - 1 - index) / shares) + 1, place: Math.floor(rank / shares) }];
}

/** The elements of a dataset, each to one of the ranks. They tell each other before each step how many examples they have, and whether more. */
export class DatasetFeed implements Feed {
  readonly #dataset: Dataset<unknown>;
  readonly #options: DatasetFeedOptions;
  #pass = 0;
  #shares: number;
  #states: readonly Json[] = [];
  #open: OpenShare[] | null = null;
  /** Of the shares: which one is read next. */
  #turn = 0;
  #damages = 0;
  /** Of a worker that steps alone: where its shares ended in the pass before, which others may still be in. */
  #before: { readonly before?: Json } = {};
  /** What all ranks tell each other before a step: their examples, whether they have more, and whether they wait for their data still. */
  readonly #news: Float32Array;

  /** @param dataset of batches. */
  constructor(dataset: Dataset<unknown>, options: DatasetFeedOptions) {
    this.#dataset = dataset.prefetch(PREFETCH_BATCHES);
    this.#options = options;
    this.#shares = options.peers.worldSize;
    this.#news = new Float32Array(3);
    if (options.position !== null) {
      const position = positionSchema.safeParse(options.position);
      if (!position.success)
        throw new TonyError('CHECKPOINT_MISFIT', 'the checkpoint says nothing that fits about where the dataset stands');
      this.#pass = position.data.pass;
      this.#shares = position.data.shares;
      this.#states = position.data.states as Json[];
    }
  }

  async next(): Promise<FeedStep> {
    const { stepsTogether, worldSize } = this.#options.peers;
    let { element, count, used, more } = await this.#agree();
    while (!stepsTogether && used === 0 && more > 0) {
      // Another one's turn in a share that they read together is no step of this one.
      ({ element, count, used, more } = await this.#agree());
    }
    if (used === 0 && !stepsTogether && worldSize > 1) {
      // There are fewer batches than workers, say.
      await this.#endPass();
      return { batch: null, weight: 0, used: 0, ended: true, release: () => {} };
    }
    if (used === 0) {
      disposeElement(element);
      throw new TonyError('DATA_INVALID', 'the dataset has no examples', {
        hint: 'Check the names of its files, what `filter` leaves, and that `dropRemainder` does not drop everything.',
      });
    }
    const ended = more === 0;
    if (ended) await this.#endPass();
    return {
      batch: count === 0 ? null : () => this.#batchOf(element),
      weight: count / used,
      used,
      ended,
      release: () => disposeElement(element),
    };
  }

  /** Until everybody has what the step needs, or nothing more. However long that takes: a rank that waits for its data is not lost. */
  async #agree(): Promise<{ element: unknown; count: number; used: number; more: number }> {
    const { peers } = this.#options;
    const coming = this.#prepare();
    // Heard when it is awaited, unless the peers are lost before.
    coming.catch(() => {});
    const news = this.#news;
    for (;;) {
      const own = await within(coming, ROUND_MS);
      news.set(own === null ? [0, 0, 1] : [own.count, own.hasMore ? 1 : 0, 0]);
      await peers.sum(news);
      const [used = 0, more = 0, waiting = 0] = news;
      if (own !== null && waiting === 0) return { element: own.element, count: own.count, used, more };
    }
  }

  async #prepare(): Promise<{ element: unknown; count: number; hasMore: boolean }> {
    this.#open ??= await this.#openAll();
    const element = await this.#take(this.#open);
    const count = element === undefined ? 0 : countExamplesOf(element);
    let hasMore = false;
    for (const { reader } of this.#open) hasMore ||= await reader.hasNext();
    return { element, count, hasMore };
  }

  /** All begin at once: what is dispatched is given out only when every share has said what it had. */
  async #openAll(): Promise<OpenShare[]> {
    const open = this.#openShares();
    await Promise.all(open.map(({ reader }) => reader.hasNext()));
    return open;
  }

  async position(): Promise<Json> {
    const { peers } = this.#options;
    if (this.#open === null) return { pass: this.#pass, shares: this.#shares, states: this.#states, ...this.#before };
    const own = this.#open.filter(({ place }) => place === 0).map(({ index, reader }) => [index, reader.state()] as const);
    const all = await peers.gather(Buffer.from(JSON.stringify(own)));
    const states = new Array<Json>(this.#shares).fill(null);
    for (const bytes of all) {
      for (const [index, state] of JSON.parse(Buffer.from(bytes).toString('utf8')) as [number, Json][]) states[index] = state;
    }
    // Of a feed: whoever goes on takes what comes next.
    if (peers.stepsTogether ? states.includes(null) : own.some(([, state]) => state === null)) return null;
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
          if (this.#damages <= TOLD_DAMAGES) onNotice(`skipped: ${message}`);
        },
      }),
    }));
  }

  /** The next batch of the share whose turn it is; undefined when this rank has none in this step. */
  async #take(open: readonly OpenShare[]): Promise<unknown> {
    for (let tries = 0; tries < open.length; tries++) {
      const { reader, readers, place } = open[this.#turn++ % open.length] as OpenShare;
      let own: unknown;
      let isThere = false;
      for (let reading = 0; reading < readers; reading++) {
        const { done, value } = (await reader.hasNext()) ? await reader.next() : { done: true, value: undefined };
        if (done) break;
        if (reading === place) own = value;
        else disposeElement(value);
        isThere = true;
      }
      if (isThere) return own;
    }
    return undefined;
  }

  async #endPass(): Promise<void> {
    if (!this.#options.peers.stepsTogether) {
      const own = (this.#open ?? []).filter(({ place }) => place === 0);
      const states = new Array<Json>(this.#shares).fill(null);
      for (const { index, reader } of own) states[index] = reader.state();
      this.#before = { before: { pass: this.#pass, shares: this.#shares, states } };
    }
    await this.close();
    if (this.#damages > TOLD_DAMAGES) this.#options.onNotice(`${this.#damages} damaged records of this epoch were skipped`);
    this.#damages = 0;
    this.#open = null;
    this.#pass++;
    this.#shares = this.#options.peers.worldSize;
    this.#states = [];
    this.#turn = 0;
  }

  #batchOf(element: unknown): Batch {
    const { tf, names, prepare } = this.#options;
    return prepareBatch(tensorsOf(tf, element, names), prepare);
  }
}

/** null: it takes longer. */
async function within<T>(work: Promise<T>, ms: number): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined;
  const pause = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), ms);
  });
  try {
    return await Promise.race([work, pause]);
  } finally {
    clearTimeout(timer);
  }
}
