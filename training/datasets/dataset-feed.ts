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
  readonly onNotice: (message: string) => void;
}

/** Batches that are read ahead of the one that is computed, and the one behind it. */
const PREFETCH_BATCHES = 2;
const TOLD_DAMAGES = 3;

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
  /** What all ranks tell each other before a step: their examples, and whether they have more. */
  readonly #news: Float32Array;

  /** @param dataset of batches. */
  constructor(dataset: Dataset<unknown>, options: DatasetFeedOptions) {
    this.#dataset = dataset.prefetch(PREFETCH_BATCHES);
    this.#options = options;
    this.#shares = options.peers.worldSize;
    this.#news = new Float32Array(2);
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
    const { peers } = this.#options;
    this.#open ??= this.#openShares();
    const element = await this.#take(this.#open);
    const count = element === undefined ? 0 : countExamplesOf(element);
    let hasMore = false;
    for (const { reader } of this.#open) hasMore ||= await reader.hasNext();
    const news = this.#news;
    news.set([count, hasMore ? 1 : 0]);
    await peers.sum(news);
    const [used, more] = news as unknown as readonly [number, number];
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

  async position(): Promise<Json> {
    const { peers } = this.#options;
    if (this.#open === null) return { pass: this.#pass, shares: this.#shares, states: this.#states };
    const own = this.#open.filter(({ place }) => place === 0).map(({ index, reader }) => [index, reader.state()] as const);
    const all = await peers.gather(Buffer.from(JSON.stringify(own)));
    const states = new Array<Json>(this.#shares).fill(null);
    for (const bytes of all) {
      for (const [index, state] of JSON.parse(Buffer.from(bytes).toString('utf8')) as [number, Json][]) states[index] = state;
    }
    return { pass: this.#pass, shares: this.#shares, states };
  }

  async close(): Promise<void> {
    const open = this.#open ?? [];
    this.#open = [];
    await Promise.all(open.map(({ reader }) => reader.return()));
  }

  #openShares(): OpenShare[] {
    const { peers, storage, seed, onNotice } = this.#options;
    return sharesOfRank(peers.rank, peers.worldSize, this.#shares).map((share) => ({
      ...share,
      reader: this.#dataset.read({
        ...(storage === undefined ? {} : { storage }),
        share: { index: share.index, count: this.#shares },
        seed,
        epoch: this.#pass,
        state: this.#states[share.index] ?? null,
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
