import { anySignal } from '../../../platform/any-signal.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import type { Storage } from '../../../storage/storage.ts';
import { openStorage } from '../../process/open-storage.ts';
import { Cursor } from '../reading/cursor.ts';
import { DispatchLog } from '../reading/dispatch-log.ts';
import type { DatasetNode, ReadContext, SplitList, SplitRead } from '../reading/read-context.ts';
import type { Share } from '../reading/share.ts';
import type { SplitAssigner } from '../reading/split-assigner.ts';
import { DeferredStream } from '../reading/stream.ts';

export interface ReadOptions {
  /**
   * The storage that contains the data. Defaults to the job's storage. Outside a job, defaults to the Hadoop cluster that is configured in
   * the folder HADOOP_CONF_DIR.
   */
  readonly storage?: Storage;
  /** The share of the dataset to read; defaults to the whole dataset. The readers of all shares together yield each element once. */
  readonly share?: Share;
  /** Alternative to `share`: reads only one split. The number refers to the result of `Dataset.splits`. */
  readonly split?: number;
  /** The seed for every `shuffle` and `sampleFrom` without a seed; 1 by default. */
  readonly seed?: number;
  /** The number of the pass over the data; 0 by default. */
  readonly epoch?: number;
  /**
   * The output of an earlier reader's `state()`, from any machine. The new reader starts at the element that the earlier reader would have
   * returned next.
   */
  readonly state?: Json;
  /** One reader state per share. Required to resume dispatched data if all readers resume together. */
  readonly states?: readonly Json[];
  readonly signal?: AbortSignal;
  /** Assigns dispatched splits; defaults to the job's ApplicationMaster or, outside a job, to this process. */
  readonly splits?: SplitAssigner;
  /** Called for each damaged record that is skipped. */
  readonly onDamage?: (damage: TonyError) => void;
  readonly onNotice?: (message: string) => void;
}

/** The output of `state()`. It determines the reader's elements, their order, and the number of elements taken so far. */
interface ReaderState {
  readonly share: readonly [index: number, count: number];
  readonly seed: number;
  readonly epoch: number;
  readonly at: Json;
  /** The output of `DispatchLog.state`, if splits are dispatched. */
  readonly splits?: Json;
}

/** Reads a dataset. A `for await` loop closes the reader. A program that calls `next` directly must call `return` after the last read. */
export class DatasetReader<T> implements AsyncIterableIterator<T> {
  readonly #cursor: Cursor<T>;
  readonly #abort = new AbortController();
  readonly #place: Omit<ReaderState, 'at' | 'splits'>;
  readonly #dispatchLog: DispatchLog;
  #ownStorage: Storage | null = null;
  #isClosed = false;
  #isRepeatable = true;
  #skipped = 0;

  constructor(node: DatasetNode<T>, options: ReadOptions) {
    const stored = (options.state ?? null) as unknown as ReaderState | null;
    const [index, count] = stored?.share ?? [options.share?.index ?? 0, options.share?.count ?? 1];
    if (!(index >= 0 && index < count)) {
      throw new TonyError('DATA_INVALID', `there is no share ${index} of ${count}`);
    }
    this.#place = { share: [index, count], seed: stored?.seed ?? options.seed ?? 1, epoch: stored?.epoch ?? options.epoch ?? 0 };
    const all = (options.states ?? []).map((state) => (state as unknown as ReaderState | null)?.splits ?? null);
    this.#dispatchLog = new DispatchLog({ index, count }, stored?.splits ?? null, all, options.splits ?? null);
    const signal = options.signal === undefined ? this.#abort.signal : anySignal([options.signal, this.#abort.signal]);
    const context: Omit<ReadContext, 'storage'> = {
      share: { index, count },
      ...(options.split === undefined ? {} : { split: { index: options.split, onSplits: () => {} } satisfies SplitRead }),
      dispatchLog: this.#dispatchLog,
      onUnrepeatable: () => {
        this.#isRepeatable = false;
      },
      seed: this.#place.seed,
      passes: [this.#place.epoch],
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

  /** The number of damaged records skipped so far. */
  get skippedRecords(): number {
    return this.#skipped;
  }

  /**
   * Returns the reader's position as JSON; null if the data cannot be read again, as with feeds. The position stays small regardless of the
   * number of prefetched or shuffled elements.
   */
  state(): Json {
    if (!this.#isRepeatable) {
      return null;
    }
    const at = this.#cursor.state() as unknown as Json;
    const splits = this.#dispatchLog.state(at);
    return { ...this.#place, at, ...(splits === null ? {} : { splits }) } satisfies ReaderState as unknown as Json;
  }

  /** Returns whether another element follows, without taking it. Reads ahead if necessary. */
  async hasNext(): Promise<boolean> {
    return !this.#isClosed && (await this.#closingOnError(() => this.#cursor.hasNext()));
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const ready = this.#cursor.poll();
    return ready === null ? this.#awaitNext() : Promise.resolve({ done: false, value: ready.value });
  }

  async #awaitNext(): Promise<IteratorResult<T, undefined>> {
    if (this.#isClosed) {
      return { done: true, value: undefined };
    }
    const { items } = await this.#closingOnError(() => this.#cursor.take(1));
    if (items.length > 0) {
      return { done: false, value: items[0] as T };
    }
    await this.return();
    return { done: true, value: undefined };
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
 * @throws TonyError DATA_INVALID when the dataset cannot be read split by split.
 */
export async function splitsOf<T>(node: DatasetNode<T>, options: Pick<ReadOptions, 'storage' | 'signal'>): Promise<SplitList> {
  const storage = options.storage ?? (await openStorage());
  let found: SplitList | null = null;
  const context: ReadContext = {
    storage,
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
