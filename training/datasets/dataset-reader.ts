import { anySignal } from '../../conf/any-signal.ts';
import { TonyError } from '../../conf/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { openStorage } from '../open-storage.ts';
import { Cursor } from './cursor.ts';
import { DispatchLog } from './dispatch-log.ts';
import type { DatasetNode, ReadContext, Share, SplitList, SplitRead } from './read-context.ts';
import type { SplitGiver } from './split-giver.ts';
import { DeferredStream, type Json } from './stream.ts';

export interface ReadOptions {
  /** That of the job, or with the cluster that HADOOP_CONF_DIR names, unless told. */
  readonly storage?: Storage;
  /** Of how many readers this is which; the only one unless told. Readers of all shares together get each element once. */
  readonly share?: Share;
  /** In place of a share: one of the splits that `Dataset.splits` tells, in the order of its file. */
  readonly split?: number;
  /** Of all that is shuffled without a seed of its own; 1 unless told. */
  readonly seed?: number;
  /** Which pass over the data this is; 0 unless told. */
  readonly epoch?: number;
  /** Goes on behind the last element that was taken when `state()` was called, on this or any other machine. */
  readonly state?: Json;
  /** The states of the readers of all shares, where all of them go on together: what is dispatched is divided by what each had got. */
  readonly states?: readonly Json[];
  readonly signal?: AbortSignal;
  /** Who gives out the splits of what is dispatched: the job, or this process, unless told. */
  readonly splits?: SplitGiver;
  /** Told of each damaged record that is skipped. */
  readonly onDamage?: (damage: TonyError) => void;
  readonly onNotice?: (message: string) => void;
}

/** What `state()` gives: which elements there are, in which order, and how many of them were taken. */
interface ReaderState {
  readonly share: readonly [index: number, count: number];
  readonly seed: number;
  readonly epoch: number;
  readonly at: Json;
  /** Which splits were given to it, if they are dispatched. */
  readonly splits?: Json;
}

/** A dataset that is being read. Leaving a `for await` loop closes it; who calls `next` alone calls `return` in the end. */
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
    if (!(index >= 0 && index < count)) throw new TonyError('DATA_INVALID', `there is no share ${index} of ${count}`);
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
      if (options.storage === undefined) this.#ownStorage = storage;
      this.#dispatchLog.begin(signal);
      return node.open({ ...context, storage }, at);
    };
    this.#cursor = new Cursor((at) => new DeferredStream(() => open(at)), stored?.at ?? null);
  }

  /** Damaged records that were left out so far. */
  get skippedRecords(): number {
    return this.#skipped;
  }

  /** Where the reader stands, as JSON; short, however much is read ahead or mixed. null when nobody can go on from there (feeds). */
  state(): Json {
    if (!this.#isRepeatable) return null;
    const at = this.#cursor.state() as unknown as Json;
    const splits = this.#dispatchLog.state(at);
    return { ...this.#place, at, ...(splits === null ? {} : { splits }) } satisfies ReaderState as unknown as Json;
  }

  /** Whether there is another element; reads it, but does not take it. */
  async hasNext(): Promise<boolean> {
    return !this.#isClosed && (await this.#closingOnError(() => this.#cursor.hasNext()));
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const ready = this.#cursor.poll();
    return ready === null ? this.#awaitNext() : Promise.resolve({ done: false, value: ready.value });
  }

  async #awaitNext(): Promise<IteratorResult<T, undefined>> {
    if (this.#isClosed) return { done: true, value: undefined };
    const { items } = await this.#closingOnError(() => this.#cursor.take(1));
    if (items.length > 0) return { done: false, value: items[0] as T };
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
  let told: SplitList | null = null;
  const context: ReadContext = {
    storage,
    share: { index: 0, count: 1 },
    split: { index: null, onSplits: (splits) => (told = splits) },
    seed: 1,
    passes: [0],
    fileOrderSeed: null,
    signal: options.signal ?? new AbortController().signal,
    onDamage: () => {},
    onNotice: () => {},
  };
  const stream = node.open(context, null);
  try {
    while ((await stream.next()) !== null);
  } finally {
    await stream.close();
    if (options.storage === undefined) storage.close();
  }
  if (told === null) throw new TonyError('DATA_INVALID', 'the dataset does not come from files: it has no splits');
  return told;
}
