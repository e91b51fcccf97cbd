import { Readable } from 'node:stream';
import type { ByteSource } from '../../../platform/byte-source.ts';
import { messageOf } from '../../../platform/errors.ts';
import type { Entry, ListingOptions, Storage, WriteOptions } from '../../../storage/storage.ts';
import { type FileChecks, openListed } from '../reading/file-checks.ts';
import type { DataFile } from '../reading/file-set.ts';
import type { ReadContext } from '../reading/read-context.ts';
import { LocalBlocks, type LocalCopyOptions } from './local-blocks.ts';

/** Size of a block in bytes. Only whole blocks are copied, so larger blocks would copy more data that no reader needs. */
export const BLOCK_BYTES = 1024 * 1024;

const stores = new Map<string, Promise<LocalBlocks>>();

/**
 * Returns a storage that keeps copies of the data from `files` on the local disk, and uses the copies for later reads. A file's size and
 * modification time identify its version. Without a valid copy, for example because the disk is full, the data comes from `storage`.
 */
export async function withLocalCopies(
  storage: Storage,
  files: readonly DataFile[],
  options: LocalCopyOptions,
  onNotice: (message: string) => void,
  checks?: FileChecks,
): Promise<Storage> {
  const key = options.folder ?? '';
  const opening = stores.get(key) ?? LocalBlocks.open(options);
  stores.set(key, opening);
  const blocks = await opening.catch((error: unknown) => {
    stores.delete(key);
    onNotice(`no data is copied to this machine's disk, so the data is read from storage each time: ${messageOf(error)}`);
    return null;
  });
  if (blocks === null) {
    return storage;
  }
  const all = files.flatMap((file) => [file, ...(file.companions ?? [])]);
  return new CopyingStorage(storage, blocks, new Map(all.map((file) => [file.uri, file])), onNotice, checks);
}

/** Returns a context whose storage keeps copies. Only data that is not local yet is verified, because a copy belongs to one version. */
export async function localContext(
  context: ReadContext,
  files: readonly DataFile[],
  options: true | LocalCopyOptions,
): Promise<ReadContext> {
  const { storage: remote, onNotice, checks } = context;
  const storage = await withLocalCopies(remote, files, options === true ? {} : options, onNotice, checks);
  return { ...context, storage, checks: storage === remote ? checks : undefined };
}

class CopyingStorage implements Storage {
  readonly #storage: Storage;
  readonly #blocks: LocalBlocks;
  readonly #files: ReadonlyMap<string, DataFile>;
  readonly #onNotice: (message: string) => void;
  readonly #checks: FileChecks | undefined;

  constructor(
    storage: Storage,
    blocks: LocalBlocks,
    files: ReadonlyMap<string, DataFile>,
    onNotice: (message: string) => void,
    checks: FileChecks | undefined,
  ) {
    this.#checks = checks;
    this.#storage = storage;
    this.#blocks = blocks;
    this.#files = files;
    this.#onNotice = onNotice;
  }

  async open(uri: string, range: { readonly offset?: number; readonly length?: number } = {}): Promise<Readable> {
    const file = this.#files.get(uri);
    if (file === undefined) {
      return await this.#storage.open(uri, range);
    }
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
        // The file is shorter than when it was listed. `readContents` reports this as an error.
        if (count === 0) {
          return;
        }
        at += count;
      }
    }
  }

  /**
   * Reads from storage up to the next local block, without copying.
   * @returns the number of bytes that it has yielded.
   */
  async *#pass(file: DataFile, from: number, to: number): AsyncGenerator<Buffer, number> {
    const end = this.#firstCopied(file, from, to);
    const stream = await openListed(this.#storage, file, { offset: from, length: end - from }, this.#checks);
    let count = 0;
    for await (const piece of stream as AsyncIterable<Buffer>) {
      count += piece.length;
      yield piece;
    }
    return count;
  }

  /**
   * Reads from storage up to the next local block, and copies whole blocks.
   * @returns the number of bytes that it has yielded.
   */
  async *#fetch(file: DataFile, from: number, to: number): AsyncGenerator<Buffer, number> {
    const start = Math.floor(from / BLOCK_BYTES) * BLOCK_BYTES;
    const end = this.#firstCopied(file, start, Math.min(file.size, Math.ceil(to / BLOCK_BYTES) * BLOCK_BYTES));
    const stream = await openListed(this.#storage, file, { offset: start, length: end - start }, this.#checks);
    const copier = new BlockCopier(file, start, (name, bytes) =>
      this.#blocks.isFull ? null : this.#blocks.put(name, bytes, this.#onNotice),
    );
    const pieces = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
    let at = start;
    try {
      while (at < end) {
        const { done, value } = await pieces.next();
        if (done) {
          break;
        }
        await copier.add(value);
        const wanted = value.subarray(Math.max(0, from - at), Math.max(0, to - at));
        at += value.length;
        if (wanted.length > 0) {
          yield wanted;
        }
      }
    } finally {
      // If the caller stops reading within a block, the rest of the block is read and copied here. Otherwise, the next read would need the
      // whole block again.
      while (copier.isWithinBlock) {
        const { done, value } = await pieces.next().catch(() => ({ done: true as const, value: undefined }));
        if (done) {
          break;
        }
        await copier.add(value);
      }
      stream.destroy();
      await copier.finished();
    }
    return Math.max(0, Math.min(at, to) - from);
  }

  /** Returns the offset of the first local block after the block that contains `from`, or `to` if no local block follows. */
  #firstCopied(file: DataFile, from: number, to: number): number {
    for (let block = Math.floor(from / BLOCK_BYTES) + 1; block * BLOCK_BYTES < to; block++) {
      if (this.#blocks.has(nameOf(file, block))) {
        return block * BLOCK_BYTES;
      }
    }
    return to;
  }

  read(uri: string): Promise<Buffer> {
    return this.#storage.read(uri);
  }

  write(uri: string, data: ByteSource, options?: WriteOptions): Promise<boolean> {
    return this.#storage.write(uri, data, options);
  }

  stat(uri: string): Promise<Entry | null> {
    return this.#storage.stat(uri);
  }

  list(uri: string, options?: ListingOptions): Promise<Entry[]> {
    return this.#storage.list(uri, options);
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

class BlockCopier {
  readonly #file: DataFile;
  /** Stores a block. Returns null if a limit has been reached. */
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

  /** Waits until all blocks have been written and can be read. */
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
      if (this.#filled < length) {
        return;
      }
      // Waiting for the previous write limits memory to two blocks: the one being filled by `add`, and the one being written.
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
