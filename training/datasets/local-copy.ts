import { Readable } from 'node:stream';
import { messageOf } from '../../conf/errors.ts';
import type { Entry, Storage, WriteOptions } from '../../storage/storage.ts';
import type { DataFile } from './file-set.ts';
import { LocalBlocks, type LocalCopyOptions } from './local-blocks.ts';

/** Files are copied in pieces of this size: what a reader needs of a file at its borders is little more than its own. */
export const BLOCK_BYTES = 1024 * 1024;

/** Of this process, by the folder that was asked for. */
const stores = new Map<string, Promise<LocalBlocks>>();

/**
 * Storage that keeps what is read of `files` on this machine's disk, and reads it from there when it is read again: each reader has what it
 * reads, no more. Files are the same when their size and time are. What is not here (another rank had it, there was no room, it is damaged)
 * comes from storage.
 */
export async function withLocalCopies(
  storage: Storage,
  files: readonly DataFile[],
  options: LocalCopyOptions,
  onNotice: (message: string) => void,
): Promise<Storage> {
  const key = options.folder ?? '';
  const opening = stores.get(key) ?? LocalBlocks.open(options);
  stores.set(key, opening);
  const blocks = await opening.catch((error: unknown) => {
    stores.delete(key);
    onNotice(`no data are copied to this machine's disk, they are read from storage each time: ${messageOf(error)}`);
    return null;
  });
  if (blocks === null) return storage;
  const all = files.flatMap((file) => [file, ...(file.companions ?? [])]);
  return new CopyingStorage(storage, blocks, new Map(all.map((file) => [file.uri, file])), onNotice);
}

class CopyingStorage implements Storage {
  readonly #storage: Storage;
  readonly #blocks: LocalBlocks;
  readonly #files: ReadonlyMap<string, DataFile>;
  readonly #onNotice: (message: string) => void;

  constructor(storage: Storage, blocks: LocalBlocks, files: ReadonlyMap<string, DataFile>, onNotice: (message: string) => void) {
    this.#storage = storage;
    this.#blocks = blocks;
    this.#files = files;
    this.#onNotice = onNotice;
  }

  async open(uri: string, range: { readonly offset?: number; readonly length?: number } = {}): Promise<Readable> {
    const file = this.#files.get(uri);
    if (file === undefined) return await this.#storage.open(uri, range);
    const from = range.offset ?? 0;
    const to = Math.min(file.size, from + (range.length ?? file.size));
    return Readable.from(this.#read(file, from, to), { objectMode: false });
  }

  async *#read(file: DataFile, from: number, to: number): AsyncGenerator<Buffer, void> {
    for (let at = from; at < to; ) {
      const block = Math.floor(at / BLOCK_BYTES);
      const bytes = await this.#blocks.get(nameOf(file, block), this.#onNotice);
      if (bytes !== null) {
        const start = block * BLOCK_BYTES;
        yield bytes.subarray(at - start, Math.min(bytes.length, to - start));
        at = Math.min(to, start + bytes.length);
      } else {
        const count = yield* this.#blocks.isFull ? this.#pass(file, at, to) : this.#fetch(file, at, to);
        // The file has become shorter: whoever reads it knows how long it was.
        if (count === 0) return;
        at += count;
      }
    }
  }

  /** From storage, without keeping it; up to the next block that is here. @returns how many bytes. */
  async *#pass(file: DataFile, from: number, to: number): AsyncGenerator<Buffer, number> {
    const end = this.#firstKept(file, from, to);
    const stream = await this.#storage.open(file.uri, { offset: from, length: end - from });
    let count = 0;
    for await (const piece of stream as AsyncIterable<Buffer>) {
      count += piece.length;
      yield piece;
    }
    return count;
  }

  /** From storage, whole blocks of which are kept; up to the next one that is here. @returns how many bytes from `from` on. */
  async *#fetch(file: DataFile, from: number, to: number): AsyncGenerator<Buffer, number> {
    const start = Math.floor(from / BLOCK_BYTES) * BLOCK_BYTES;
    const end = this.#firstKept(file, start, Math.min(file.size, Math.ceil(to / BLOCK_BYTES) * BLOCK_BYTES));
    const stream = await this.#storage.open(file.uri, { offset: start, length: end - start });
    const keeper = new BlockKeeper(file, start, (name, bytes) =>
      this.#blocks.isFull ? null : this.#blocks.put(name, bytes, this.#onNotice),
    );
    const pieces = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
    let at = start;
    try {
      while (at < end) {
        const { done, value } = await pieces.next();
        if (done) break;
        await keeper.add(value);
        const wanted = value.subarray(Math.max(0, from - at), Math.max(0, to - at));
        at += value.length;
        if (wanted.length > 0) yield wanted;
      }
    } finally {
      // Whoever stops within a block needs the rest of it no more, but would fetch all of it again next time.
      while (keeper.isWithinBlock) {
        const { done, value } = await pieces.next().catch(() => ({ done: true as const, value: undefined }));
        if (done) break;
        await keeper.add(value);
      }
      stream.destroy();
      await keeper.finished();
    }
    return Math.max(0, Math.min(at, to) - from);
  }

  /** Where the first block begins that is here, behind the one of `from`. */
  #firstKept(file: DataFile, from: number, to: number): number {
    for (let block = Math.floor(from / BLOCK_BYTES) + 1; block * BLOCK_BYTES < to; block++) {
      if (this.#blocks.has(nameOf(file, block))) return block * BLOCK_BYTES;
    }
    return to;
  }

  read(uri: string): Promise<Buffer> {
    return this.#storage.read(uri);
  }

  write(uri: string, data: Uint8Array | AsyncIterable<Uint8Array>, options?: WriteOptions): Promise<boolean> {
    return this.#storage.write(uri, data, options);
  }

  stat(uri: string): Promise<Entry | null> {
    return this.#storage.stat(uri);
  }

  list(uri: string): Promise<Entry[]> {
    return this.#storage.list(uri);
  }

  rename(from: string, to: string): Promise<boolean> {
    return this.#storage.rename(from, to);
  }

  remove(uri: string): Promise<boolean> {
    return this.#storage.remove(uri);
  }

  makeFolder(uri: string, permission?: number): Promise<void> {
    return this.#storage.makeFolder(uri, permission);
  }

  close(): void {
    this.#storage.close();
  }
}

/** Makes blocks of pieces as they come. */
class BlockKeeper {
  readonly #file: DataFile;
  /** null: there is no use in more of them. */
  readonly #put: (name: string, bytes: Buffer) => Promise<void> | null;
  #at: number;
  #block: Buffer | null = null;
  #filled = 0;
  #written: Promise<void> | null = Promise.resolve();

  constructor(file: DataFile, start: number, put: (name: string, bytes: Buffer) => Promise<void> | null) {
    this.#file = file;
    this.#at = start;
    this.#put = put;
  }

  get isWithinBlock(): boolean {
    return this.#filled > 0 && this.#written !== null;
  }

  /** What is kept can be read from now on. */
  async finished(): Promise<void> {
    await this.#written;
  }

  async add(piece: Buffer): Promise<void> {
    for (let used = 0; used < piece.length; ) {
      const length = Math.min(BLOCK_BYTES, this.#file.size - this.#at);
      this.#block ??= Buffer.allocUnsafeSlow(length);
      const copied = piece.copy(this.#block, this.#filled, used);
      used += copied;
      this.#filled += copied;
      if (this.#filled < length) return;
      // The next block is filled while this one is written; more than these two are not held.
      await this.#written;
      this.#written = this.#put(nameOf(this.#file, this.#at / BLOCK_BYTES), this.#block);
      this.#at += length;
      this.#block = null;
      this.#filled = 0;
    }
  }
}

function nameOf({ uri, size, modifiedAt }: DataFile, block: number): string {
  return `${uri}\0${size}\0${modifiedAt}\0${block}`;
}
