import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import { shuffledOrder } from '../../../platform/random.ts';
import type { SourceOptions } from '../formats/source-options.ts';
import { localContext } from '../local-copy/local-copy.ts';
import { deal } from '../reading/deal.ts';
import { dispatchedStream } from '../reading/dispatched.ts';
import { type DataFile, type Files, fingerprint, otherFiles } from '../reading/file-set.ts';
import { type FileLister, InputFiles } from '../reading/input-files.ts';
import type { DatasetNode, ReadContext, SplitRead } from '../reading/read-context.ts';
import type { FileFormat, Split } from '../reading/split.ts';
import { type Chunk, type ChunkStream, DeferredStream } from '../reading/stream.ts';

const SPLIT_BYTES = 64 * 1024 * 1024;
const SMALLEST_SPLIT_BYTES = 1024 * 1024;
/** Number of splits for each reader. With several splits per reader, the shares have similar sizes. */
const SPLITS_PER_READER = 4;
const CONCURRENT_READS = 8;

/**
 * Reads records from files.
 *
 * State: the files' fingerprint, the number of the split in this reader's order, and the position in the split.
 */
export class FileSource<T> implements DatasetNode<T> {
  readonly #list: FileLister;
  readonly #format: FileFormat<T>;
  readonly #options: SourceOptions;

  constructor(files: Files | FileLister, format: FileFormat<T>, options: SourceOptions) {
    this.#list = typeof files === 'function' ? files : new InputFiles([files], options.refresh).list;
    this.#format = format;
    this.#options = options;
  }

  open(outer: ReadContext, from: Json): ChunkStream<T> {
    return new DeferredStream(async () => {
      const { share, split, fileOrderSeed, passes } = outer;
      const files = await this.#list(outer);
      const context = await this.#withLocalCopies(outer, files);
      if (split !== undefined) {
        return this.#openSplit(files, split, context, from);
      }
      const splits = await this.#cut(files, share.count, context);
      const order = fileOrderSeed === null ? splits.keys() : shuffledOrder(splits.length, fileOrderSeed, ...passes);
      const ordered = Array.from(order, (index) => splits[index] as Split);
      const known = fingerprint(files);
      const policy = this.#options.shardPolicy ?? 'auto';
      if (context.dispatch === true && context.dispatchLog !== undefined && policy !== 'off' && splits.length >= share.count) {
        const order = JSON.stringify([known, fileOrderSeed]);
        const pass = context.dispatchLog.open({ fingerprint: order, splits: splits.length, passes });
        return dispatchedStream(ordered, pass, this.#format, context, from);
      }
      const byFile = policy === 'file' || (policy === 'auto' && splits.length >= share.count);
      if (policy === 'off') {
        return splitStream(ordered, known, this.#format, context, from);
      }
      if (byFile) {
        // A reader with local copies (`context !== outer`) must keep the same share in every epoch. Otherwise, its copies would be useless.
        const own = new Set(shareOf(context === outer ? ordered : splits, share.index, share.count));
        const mine = ordered.filter((each) => own.has(each));
        return splitStream(mine, known, this.#format, context, from);
      }
      return deal((at) => splitStream(ordered, known, this.#format, context, at), share, from);
    });
  }

  async #withLocalCopies(context: ReadContext, files: readonly DataFile[]): Promise<ReadContext> {
    const { localCopy = false } = this.#options;
    if (localCopy === false) {
      return context;
    }
    return await localContext(context, files, localCopy);
  }

  async #cut(files: readonly DataFile[], readers: number, context: ReadContext): Promise<Split[]> {
    const largest = largestSplit(files, readers, this.#options.splitBytes);
    const borders = new Map<DataFile, readonly number[]>();
    const toCut = this.#format.borders === undefined ? [] : files.filter(({ size }) => size > largest);
    for (let at = 0; at < toCut.length; at += CONCURRENT_READS) {
      const some = toCut.slice(at, at + CONCURRENT_READS);
      await Promise.all(some.map(async (file) => borders.set(file, (await this.#format.borders?.(file, context)) ?? [])));
    }
    return files.flatMap((file) => {
      const own = borders.get(file);
      const count = this.#format.isSplittable(file) ? Math.ceil(file.size / largest) : 1;
      return own === undefined ? cutEvenly(file, Math.max(1, count)) : cutAtBorders(file, own, largest);
    });
  }

  async #openSplit(files: readonly DataFile[], { index, onSplits }: SplitRead, context: ReadContext, from: Json): Promise<ChunkStream<T>> {
    // The number of readers does not affect these splits, so every caller gets the same list.
    const splits = await this.#cut(files, 1, context);
    const known = fingerprint(files);
    onSplits({ fingerprint: known, splits: splits.map((split) => ({ uri: split.file.uri, from: split.from, to: split.to })) });
    const chosen = index === null ? [] : splits.slice(index, index + 1);
    if (index !== null && chosen.length === 0) {
      throw new TonyError('DATA_INVALID', `there is no split ${index}: the splits are numbered from 0 to ${splits.length - 1}`);
    }
    return splitStream(chosen, `${known}:${index}`, this.#format, context, from);
  }
}

function largestSplit(files: readonly DataFile[], readers: number, splitBytes = SPLIT_BYTES): number {
  const total = files.reduce((sum, { size }) => sum + size, 0);
  const even = Math.max(SMALLEST_SPLIT_BYTES, Math.ceil(total / (readers * SPLITS_PER_READER)));
  return Math.min(splitBytes, readers === 1 ? splitBytes : even);
}

function cutEvenly(file: DataFile, count: number): Split[] {
  const border = (index: number) => Math.round((file.size * index) / count);
  return Array.from({ length: count }, (_, index) => ({ file, from: border(index), to: border(index + 1) }));
}

/** Joins groups of records into splits of about `largest` bytes. Each split contains at least one group. The first begins at byte 0. */
function cutAtBorders(file: DataFile, borders: readonly number[], largest: number): Split[] {
  const splits: Split[] = [];
  let from = 0;
  for (const [index, border] of borders.entries()) {
    const end = borders[index + 1] ?? file.size;
    if (index > 0 && border > from && end - from > largest) {
      splits.push({ file, from, to: border });
      from = border;
    }
  }
  return [...splits, { file, from, to: file.size }];
}

/**
 * Returns one reader's splits in their original order. To balance the shares, the largest splits are assigned first, each to the reader
 * that has the fewest bytes so far.
 */
export function shareOf(splits: readonly Split[], reader: number, readers: number): Split[] {
  if (readers === 1) {
    return [...splits];
  }
  const bytes = new Array<number>(readers).fill(0);
  const mine = new Set<Split>();
  for (const split of [...splits].sort((a, b) => b.to - b.from - (a.to - a.from))) {
    const least = bytes.indexOf(Math.min(...bytes));
    bytes[least] = (bytes[least] as number) + split.to - split.from;
    if (least === reader) {
      mine.add(split);
    }
  }
  return splits.filter((split) => mine.has(split));
}

function splitStream<T>(splits: readonly Split[], known: string, format: FileFormat<T>, context: ReadContext, state: Json): ChunkStream<T> {
  const [stored, first, from] = (state ?? [known, 0, null]) as [string, number, Json];
  if (stored !== known) {
    throw otherFiles();
  }
  let number = first;
  let at = from;
  let chunks: AsyncGenerator<Chunk<T>, void> | null = null;
  return {
    next: async () => {
      for (;;) {
        const split = splits[number];
        if (split === undefined) {
          return null;
        }
        context.signal.throwIfAborted();
        chunks ??= format.read(split, at, context);
        const { done, value } = await chunks.next();
        if (!done) {
          return { ...value, from: [known, number, value.from] };
        }
        chunks = null;
        number++;
        at = null;
      }
    },
    close: async () => {
      number = splits.length;
      await chunks?.return();
    },
  };
}
