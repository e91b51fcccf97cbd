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
   * The storage that contains the data. By default the job's storage or, outside a job, a storage on the Hadoop cluster whose
   * configuration is in the folder that HADOOP_CONF_DIR names.
   */
  readonly storage?: Storage;
  /** The share of the dataset to read; the whole dataset by default. The readers of all shares together get each element once. */
  readonly share?: Share;
  /** Alternative to `share`: reads only the split with this number in the result of `Dataset.splits`, in file order. */
  readonly split?: number;
  /** The seed for every `shuffle` and `sampleFrom` without a seed; 1 by default. */
  readonly seed?: number;
  /** The number of the pass over the data; 0 by default. */
  readonly epoch?: number;
  /**
   * The output of `state()` of an earlier reader, on any machine. The new reader starts with the element that the earlier reader would have
   * returned next.
   */
  readonly state?: Json;
  /**
   * The states of the readers of all shares, if all of them resume together. They are required to continue the assignment of dispatched
   * splits.
   */
  readonly states?: readonly Json[];
  readonly signal?: AbortSignal;
  /** Assigns dispatched splits; by default the job's ApplicationMaster or, outside a job, this process. */
  readonly splits?: SplitAssigner;
  /** Called for each damaged record that is skipped. */
  readonly onDamage?: (damage: TonyError) => void;
  readonly onNotice?: (message: string) => void;
}

/** The output of `state()`. It determines the elements of the reader, their order, and how many elements the program has taken. */
interface ReaderState {
  readonly share: readonly [index: number, count: number];
  readonly seed: number;
  readonly epoch: number;
  readonly at: Json;
  /** The output of `DispatchLog.state`, if splits are dispatched. */
  readonly splits?: Json;
}

/** Reads a dataset. A `for await` loop closes the reader. A program that calls `next` directly must call `return` when it stops reading. */
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
   * Returns the reader's position as JSON; null if the data cannot be read again, as with feeds. The position stays small even if many
   * elements are read ahead or shuffled.
   */
  state(): Json {
    if (!this.#isRepeatable) {
      return null;
    }
    const at = this.#cursor.state() as unknown as Json;
    const splits = this.#dispatchLog.state(at);
    return { ...this.#place, at, ...(splits === null ? {} : { splits }) } satisfies ReaderState as unknown as Json;
  }

  /** Returns whether another element follows. Reads ahead if necessary, but does not take the element. */
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

/** @throws TonyError DATA_INVALID when the dataset cannot be read split by split. */
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
