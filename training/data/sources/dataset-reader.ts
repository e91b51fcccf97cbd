import * as z from 'zod';
import { openStorage } from '../../../contract/process/open-storage.ts';
import { anySignal } from '../../../platform/async/any-signal.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import type { Storage } from '../../../storage/storage.ts';
import { Cursor } from '../reading/cursor.ts';
import { DispatchLog } from '../reading/dispatch-log.ts';
import { FileChecks } from '../reading/file-checks.ts';
import { InputLists, type ListNames, listNames } from '../reading/input-lists.ts';
import type { DatasetNode, ReadContext, SplitList, SplitRead } from '../reading/read-context.ts';
import type { Share } from '../reading/share.ts';
import type { SplitAssigner } from '../reading/split-assigner.ts';
import { DeferredStream } from '../reading/stream.ts';
import type { StreamPlace } from '../reading/stream-place.ts';
import { unusable } from '../transforms/collate.ts';

export interface ReadOptions {
  /**
   * Storage that contains the data. Default: the job's storage or, outside a job, the storage of the Hadoop cluster that HADOOP_CONF_DIR
   * configures.
   */
  readonly storage?: Storage;
  /** Share of the dataset to read. The readers of all shares together yield each element once. Default: the whole dataset. */
  readonly share?: Share;
  /** Number of the only split to read, as an alternative to `share`. `Dataset.splits` returns the list of splits. */
  readonly split?: number;
  /** Seed for each `shuffle` and `sampleFrom` that has no seed. Default: 1. */
  readonly seed?: number;
  /** The number of the pass over the data. Default: 0. */
  readonly epoch?: number;
  /** Number of earlier passes that another process has read, for example before a restart. Default: 0. */
  readonly missedPasses?: number;
  /**
   * Result of an earlier reader's `state`, which may come from another machine. The new reader begins with the element that the earlier
   * reader would have returned next.
   */
  readonly state?: Json;
  /** The states of all readers, one for each share. Only needed if all readers of dispatched data resume together. */
  readonly states?: readonly Json[];
  readonly signal?: AbortSignal;
  /** The lists of files that all readers share. Default: the job's lists. */
  readonly lists?: InputLists;
  /** Assigns the splits of dispatched data. Default: the job's ApplicationMaster or, outside a job, this process. */
  readonly splits?: SplitAssigner;
  /** The place in a stream of Spark, which only `fit` and `cluster.loop` can read. */
  readonly stream?: StreamPlace | undefined;
  /** Called for each damaged record that the reader skips. */
  readonly onDamage?: (damage: TonyError) => void;
  readonly onNotice?: (message: string) => void;
}

/** Result of `state`. Describes which elements the reader yields, in which order, and how many of them the caller has taken. */
const readerState = z.object({
  share: z.tuple([z.number(), z.number()]),
  seed: z.number(),
  epoch: z.number(),
  at: z.custom<Json>(),
  /** State of the dispatch log, if the dataset is dispatched. */
  splits: z.custom<Json>().optional(),
  /** The names of the job's lists of files, if the reader itself keeps them. */
  lists: listNames.optional(),
});
type ReaderState = z.infer<typeof readerState>;

/** Parses the result of `state`. Returns null if the earlier reader could not store its position. */
function parseState(state: Json = null): ReaderState | null {
  const parsed = readerState.nullable().safeParse(state);
  if (!parsed.success) {
    throw new TonyError('DATA_INVALID', 'the stored position in the dataset is not the state of a dataset reader');
  }
  return parsed.data;
}

function listsIn(states: readonly (Json | undefined)[]): ListNames {
  return Object.assign({}, ...states.map((state) => parseState(state)?.lists));
}

/** Reads a dataset. A `for await` loop closes the reader when it ends. A program that calls `next` itself must also call `return`. */
export class DatasetReader<T> implements AsyncIterableIterator<T> {
  readonly #cursor: Cursor<T>;
  readonly #abort = new AbortController();
  readonly #place: Omit<ReaderState, 'at' | 'splits' | 'lists'>;
  /** The reader's own lists, or null if the caller keeps them. */
  readonly #lists: InputLists | null;
  readonly #dispatchLog: DispatchLog;
  #ownStorage: Storage | null = null;
  #isClosed = false;
  #isRepeatable = true;
  #skipped = 0;
  #given = 0;

  constructor(node: DatasetNode<T>, options: ReadOptions) {
    const stored = parseState(options.state);
    const [index, count] = stored?.share ?? [options.share?.index ?? 0, options.share?.count ?? 1];
    if (!(index >= 0 && index < count)) {
      throw new TonyError('DATA_INVALID', `there is no share ${index}: the shares are numbered from 0 to ${count - 1}`);
    }
    this.#place = { share: [index, count], seed: stored?.seed ?? options.seed ?? 1, epoch: stored?.epoch ?? options.epoch ?? 0 };
    const all = (options.states ?? []).map((state) => parseState(state)?.splits ?? null);
    this.#dispatchLog = new DispatchLog({ index, count }, stored?.splits ?? null, all, options.splits ?? null);
    this.#lists =
      options.lists === undefined ? InputLists.ofJob().view({ pinned: listsIn([...(options.states ?? []), options.state]) }) : null;
    const lists = options.lists ?? (this.#lists as InputLists);
    const signal = options.signal === undefined ? this.#abort.signal : anySignal([options.signal, this.#abort.signal]);
    const context: Omit<ReadContext, 'storage'> = {
      share: { index, count },
      lists,
      checks: new FileChecks(lists),
      ...(options.split === undefined ? {} : { split: { index: options.split, onSplits: () => {} } satisfies SplitRead }),
      dispatchLog: this.#dispatchLog,
      stream: options.stream,
      onUnrepeatable: () => {
        this.#isRepeatable = false;
      },
      seed: this.#place.seed,
      passes: [this.#place.epoch],
      missedPasses: options.missedPasses ?? 0,
      fileOrderSeed: null,
      signal,
      onDamage: (damage) => {
        this.#skipped++;
        options.onDamage?.(damage);
      },
      onNotice: (message) => options.onNotice?.(message),
    };
    const open = async (at: Json) => {
      const storage = options.storage ?? (await openStorage());
      if (options.storage === undefined) {
        this.#ownStorage = storage;
      }
      this.#dispatchLog.begin(signal);
      return node.open({ ...context, storage }, at);
    };
    this.#cursor = new Cursor((at) => new DeferredStream(() => open(at)), stored?.at ?? null);
  }

  /** Number of damaged records that the reader has skipped. */
  get skippedRecords(): number {
    return this.#skipped;
  }

  /**
   * Returns the reader's position as JSON, or null if the data cannot be read again, for example from a feed. The position is small,
   * because it contains no elements.
   */
  state(): Json {
    if (!this.#isRepeatable) {
      return null;
    }
    const at = this.#cursor.state();
    const splits = this.#dispatchLog.state(at);
    const lists = this.#lists?.names ?? {};
    const kept = Object.keys(lists).length === 0 ? {} : { lists };
    return { ...this.#place, at, ...(splits === null ? {} : { splits }), ...kept } satisfies ReaderState;
  }

  /** Returns true if another element follows. Reads ahead if necessary. */
  async hasNext(): Promise<boolean> {
    return !this.#isClosed && (await this.#closingOnError(() => this.#cursor.hasNext()));
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const ready = this.#cursor.poll();
    return ready === null ? this.#awaitNext() : this.#give(ready.value);
  }

  async #awaitNext(): Promise<IteratorResult<T, undefined>> {
    if (this.#isClosed) {
      return { done: true, value: undefined };
    }
    const { items } = await this.#closingOnError(() => this.#cursor.take(1));
    if (items.length > 0) {
      return await this.#give(items[0] as T);
    }
    await this.return();
    return { done: true, value: undefined };
  }

  async #give(value: T): Promise<IteratorResult<T, undefined>> {
    this.#given++;
    if (value === undefined || value instanceof Promise) {
      return await this.#closingOnError(async () => {
        throw unusable(value, { name: '', first: this.#given });
      });
    }
    return { done: false, value };
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    this.#isClosed = true;
    this.#abort.abort();
    await this.#cursor.close();
    this.#ownStorage?.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #closingOnError<R>(action: () => Promise<R>): Promise<R> {
    try {
      return await action();
    } catch (error) {
      await this.return().catch(() => {});
      throw error;
    }
  }
}

/**
 * Returns the splits of the dataset's files.
 * @throws TonyError DATA_INVALID if the dataset cannot be read split by split.
 */
export async function splitsOf<T>(node: DatasetNode<T>, options: Pick<ReadOptions, 'storage' | 'signal' | 'lists'>): Promise<SplitList> {
  const storage = options.storage ?? (await openStorage());
  let found: SplitList | null = null;
  const context: ReadContext = {
    storage,
    lists: options.lists ?? InputLists.ofJob(),
    share: { index: 0, count: 1 },
    split: { index: null, onSplits: (splits) => (found = splits) },
    seed: 1,
    passes: [0],
    fileOrderSeed: null,
    signal: options.signal ?? new AbortController().signal,
    onDamage: () => {},
    onNotice: () => {},
  };
  const stream = node.open(context, null);
  try {
    while ((await stream.next()) !== null) {}
  } finally {
    await stream.close();
    if (options.storage === undefined) {
      storage.close();
    }
  }
  if (found === null) {
    throw new TonyError('DATA_INVALID', 'the dataset has no splits, because it does not come from files');
  }
  return found;
}
