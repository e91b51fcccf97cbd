import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { encodeTfRecord, TfRecordParser } from '../../../contract/encoding/tfrecord.ts';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import { createScratchFolder, removeScratchFolder } from '../local-copy/scratch-folder.ts';
import { type DatasetNode, type ReadContext, undispatched } from '../reading/read-context.ts';
import { type Chunk, type ChunkStream, streamOf } from '../reading/stream.ts';

export interface CacheOptions {
  /** Whether to cache on the local disk instead of in memory. Default: false. */
  readonly disk?: boolean;
  /**
   * Maximum size in bytes of one reader's cache. A share that exceeds this size is read from its source in each pass. Default: 1 GiB in
   * memory, 16 GiB on disk.
   */
  readonly maxBytes?: number;
  /** Folder for a cache on disk. Default: the container's folder or, outside a job, the machine's temporary folder. */
  readonly folder?: string;
}

const MEMORY_BYTES = 1024 ** 3;
const DISK_BYTES = 16 * 1024 ** 3;

interface Kept<T> {
  add(items: readonly T[], bytes: number): Promise<void>;
  read(from: number): AsyncGenerator<readonly T[], void>;
  remove(): Promise<void>;
}

/**
 * Caches the elements of the first pass for later passes. Each reader caches its own share, in the order of the first pass. A reader that
 * resumes without a cache reads its source from the beginning and fills the cache again.
 *
 * State: the number of elements before the position.
 */
export class CacheNode<T> implements DatasetNode<T> {
  readonly #inner: DatasetNode<T>;
  readonly #options: CacheOptions;
  /** Each share's cache. Null while the cache is incomplete, or if it would exceed the limit. */
  readonly #kept = new Map<string, Kept<T> | null>();

  constructor(inner: DatasetNode<T>, options: CacheOptions) {
    this.#inner = inner;
    this.#options = options;
  }

  open(context: ReadContext, from: Json): ChunkStream<T> {
    if (context.split !== undefined) {
      return this.#inner.open(context, from);
    }
    return streamOf(this.#read(context, (from as number | null) ?? 0));
  }

  async *#read(context: ReadContext, from: number): AsyncGenerator<Chunk<T>, void> {
    const key = `${context.share.index}/${context.share.count}`;
    const kept = this.#kept.get(key);
    let at = from;
    if (kept) {
      try {
        for await (const items of kept.read(at)) {
          yield { items, from: at, bytes: 0 };
          at += items.length;
        }
        return;
      } catch (error) {
        if (!(error instanceof TonyError) || error.code !== 'DATA_INVALID') {
          throw error;
        }
        context.onNotice(`the dataset's cache cannot be read, so the source is read instead: ${messageOf(error)}`);
        this.#kept.set(key, null);
        await kept.remove();
      }
    }
    yield* this.#readSource(context, key, at, kept === undefined);
  }

  async *#readSource(context: ReadContext, key: string, skip: number, isToBeKept: boolean): AsyncGenerator<Chunk<T>, void> {
    // The cache needs the same share in every pass. Because `passes` is empty, the source uses the same order in every pass.
    const stream = this.#inner.open({ ...undispatched(context), passes: [], missedPasses: 0 }, null);
    const limit = this.#options.maxBytes ?? (this.#options.disk ? DISK_BYTES : MEMORY_BYTES);
    let keeping: Kept<T> | null = null;
    let isWhole = false;
    if (isToBeKept) {
      this.#kept.set(key, null);
      keeping = this.#options.disk ? await KeptOnDisk.create<T>(limit, this.#options.folder) : new KeptInMemory<T>(limit);
    }
    let at = 0;
    try {
      for (let chunk = await stream.next(); chunk !== null; chunk = await stream.next()) {
        if (keeping !== null) {
          const failure = await keeping.add(chunk.items, chunk.bytes).catch((error: unknown) => ({ error }));
          if (failure) {
            if (failure.error instanceof TonyError && failure.error.code === 'USAGE') {
              throw failure.error;
            }
            context.onNotice(`the dataset is read from its source each time: ${messageOf(failure.error)}`);
            await keeping.remove();
            keeping = null;
          }
        }
        const before = at;
        at += chunk.items.length;
        const unseen = before >= skip ? chunk.items : chunk.items.slice(skip - before);
        if (unseen.length > 0) {
          yield { items: unseen, from: at - unseen.length, bytes: chunk.bytes };
        }
      }
      isWhole = true;
    } finally {
      await stream.close();
      if (keeping !== null) {
        if (isWhole) {
          this.#kept.set(key, keeping);
        } else {
          this.#kept.delete(key);
          await keeping.remove();
        }
      }
    }
  }
}

class KeptInMemory<T> implements Kept<T> {
  readonly #limit: number;
  readonly #chunks: (readonly T[])[] = [];
  #bytes = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  async add(items: readonly T[], bytes: number): Promise<void> {
    refuseTensors(items);
    this.#bytes += bytes;
    if (this.#bytes > this.#limit) {
      throw full(this.#limit);
    }
    this.#chunks.push(items);
  }

  async *read(from: number): AsyncGenerator<readonly T[], void> {
    let before = 0;
    for (const items of this.#chunks) {
      if (before + items.length > from) {
        yield before >= from ? items : items.slice(from - before);
      }
      before += items.length;
    }
  }

  async remove(): Promise<void> {
    this.#chunks.length = 0;
  }
}

/** Open files. The references keep garbage collection from closing them, which would make Node.js print a warning. */
const openFiles = new Set<FileHandle>();
const READ_BYTES = 1024 * 1024;

/** Stores each chunk as one TFRecord, serialised with v8.serialize. The TFRecord checksums detect disk errors. */
class KeptOnDisk<T> implements Kept<T> {
  readonly #limit: number;
  readonly #folder: string;
  readonly #file: FileHandle;
  readonly #chunks: { readonly count: number; readonly offset: number }[] = [];
  #bytes = 0;

  private constructor(limit: number, folder: string, file: FileHandle) {
    this.#limit = limit;
    this.#folder = folder;
    this.#file = file;
  }

  static async create<T>(limit: number, place: string | undefined): Promise<KeptOnDisk<T>> {
    const folder = await createScratchFolder(place);
    const file = await open(join(folder, 'elements'), 'wx+', 0o600);
    openFiles.add(file);
    return new KeptOnDisk<T>(limit, folder, file);
  }

  async add(items: readonly T[]): Promise<void> {
    refuseTensors(items);
    const record = encodeTfRecord(serialize(items));
    if (this.#bytes + record.length > this.#limit) {
      throw full(this.#limit);
    }
    await this.#file.write(record, 0, record.length, this.#bytes);
    this.#chunks.push({ count: items.length, offset: this.#bytes });
    this.#bytes += record.length;
  }

  async *read(from: number): AsyncGenerator<readonly T[], void> {
    let skip = from;
    let chunk = 0;
    for (; chunk < this.#chunks.length && skip >= (this.#chunks[chunk]?.count ?? 0); chunk++) {
      skip -= this.#chunks[chunk]?.count ?? 0;
    }
    let at = this.#chunks[chunk]?.offset ?? this.#bytes;
    const parser = new TfRecordParser({
      where: join(this.#folder, 'elements'),
      offset: at,
      end: this.#bytes,
      maxRecordBytes: this.#bytes,
      onDamage: (damage) => {
        throw damage;
      },
    });
    while (at < this.#bytes) {
      const buffer = Buffer.allocUnsafeSlow(Math.min(READ_BYTES, this.#bytes - at));
      const { bytesRead } = await this.#file.read(buffer, 0, buffer.length, at);
      if (bytesRead === 0) {
        throw new TonyError('DATA_INVALID', `a cache file in ${this.#folder} is truncated`);
      }
      at += bytesRead;
      for (const record of parser.push(buffer.subarray(0, bytesRead))) {
        const items = deserialize(record) as T[];
        yield skip === 0 ? items : items.slice(skip);
        skip = 0;
      }
    }
  }

  async remove(): Promise<void> {
    await this.#file.close();
    openFiles.delete(this.#file);
    await removeScratchFolder(this.#folder);
  }
}

function full(limit: number): Error {
  return new Error(`its cache may use at most ${limit} bytes (maxBytes)`);
}

function refuseTensors(items: readonly unknown[]): void {
  if (items.some(holdsTensor)) {
    throw new TonyError('USAGE', 'tensors cannot be cached', { hint: 'Call cache() before the map that creates tensors.' });
  }
}

function holdsTensor(element: unknown): boolean {
  if (typeof element !== 'object' || element === null || ArrayBuffer.isView(element)) {
    return false;
  }
  if ('dispose' in element && typeof element.dispose === 'function') {
    return true;
  }
  if (Array.isArray(element)) {
    return typeof element[0] === 'object' && element.some(holdsTensor);
  }
  return Object.values(element).some(holdsTensor);
}
