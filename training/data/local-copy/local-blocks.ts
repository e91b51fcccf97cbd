import { constants, type FileHandle, mkdir, open, readFile, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { crc32c } from '../../../contract/encoding/crc32c.ts';
import { messageOf } from '../../../platform/errors.ts';
import { writeIfAbsent } from '../../../platform/files/write-if-absent.ts';
import { parseJson } from '../../../platform/json-value.ts';
import { containerScratch, createScratchFolder, isAlive, removeAtEnd } from './scratch-folder.ts';

export interface LocalCopyOptions {
  /** Maximum total size in bytes of this program's copies. Data beyond this limit is read from storage each time. Default: 16 GiB. */
  readonly maxBytes?: number;
  /** Disk space in bytes that must stay free. Default: 1 GiB. */
  readonly keepFreeBytes?: number;
  /** Folder for the copies. Default: the container's folder or, outside a job, the machine's temporary folder. */
  readonly folder?: string;
}

const MAX_BYTES = 16 * 1024 ** 3;
const KEEP_FREE_BYTES = 1024 ** 3;
/** Number of bytes written between two checks of the free disk space. A check costs more than writing one block. */
const CHECK_EVERY_BYTES = 64 * 1024 * 1024;

/** Open files. The references keep garbage collection from closing them, which would make Node.js print a warning. */
const openFiles: FileHandle[] = [];

interface Place {
  readonly offset: number;
  readonly length: number;
  readonly crc: number;
}

const lineSchema = z.tuple([z.string(), z.number().int().nonnegative(), z.number().int().nonnegative(), z.number().int().nonnegative()]);

/**
 * Stores file blocks on the local disk, by name:
 *
 *   blocks   the concatenated bytes of the blocks
 *   index    one line per block: JSON [name, offset, length, crc32c], written after the block's bytes
 *   owner    the ID of the process that writes to the folder
 *
 * A program that restarts in the same container, for example because a worker was lost, reuses the previous program's blocks. If the
 * previous program was killed, its last block may be incomplete, so `get` verifies each block. A program removes the files when it exits.
 * If the program is killed, YARN removes the files together with the container.
 */
export class LocalBlocks {
  readonly #blocks: FileHandle;
  readonly #index: FileHandle;
  readonly #folder: string;
  readonly #places: Map<string, Place>;
  readonly #limit: number;
  readonly #keepFree: number;
  #bytes: number;
  #checkAt = 0;
  #writing: Promise<void> = Promise.resolve();
  #isFull = false;

  private constructor(
    folder: string,
    files: { readonly blocks: FileHandle; readonly index: FileHandle },
    places: Map<string, Place>,
    options: LocalCopyOptions,
  ) {
    this.#folder = folder;
    this.#blocks = files.blocks;
    this.#index = files.index;
    this.#places = places;
    this.#limit = options.maxBytes ?? MAX_BYTES;
    this.#keepFree = options.keepFreeBytes ?? KEEP_FREE_BYTES;
    this.#bytes = Math.max(0, ...[...places.values()].map(({ offset, length }) => offset + length));
  }

  static async open(options: LocalCopyOptions): Promise<LocalBlocks> {
    const folder = await takeFolder(options.folder);
    const blocks = await open(join(folder, 'blocks'), constants.O_RDWR | constants.O_CREAT, 0o600);
    const index = await open(join(folder, 'index'), 'a', 0o600);
    openFiles.push(blocks, index);
    const { size } = await blocks.stat();
    const places = placesOf(await readFile(join(folder, 'index'), 'utf8'), size);
    return new LocalBlocks(folder, { blocks, index }, places, options);
  }

  has(name: string): boolean {
    return this.#places.has(name);
  }

  /** True after a write has failed or would have exceeded a limit. `put` then stores no more blocks. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Returns the block, or null if it is missing or damaged. */
  async get(name: string, onNotice: (message: string) => void): Promise<Buffer | null> {
    const place = this.#places.get(name);
    if (place === undefined) {
      return null;
    }
    try {
      const bytes = Buffer.allocUnsafeSlow(place.length);
      const { bytesRead } = await this.#blocks.read(bytes, 0, place.length, place.offset);
      if (bytesRead === place.length && crc32c(bytes) === place.crc) {
        return bytes;
      }
      onNotice(`a local copy in ${this.#folder} is damaged; reading the data from storage again`);
    } catch (error) {
      onNotice(`a local copy in ${this.#folder} cannot be read; reading the data from storage again: ${messageOf(error)}`);
    }
    this.#places.delete(name);
    return null;
  }

  /** Stores a block if there is space. The caller must not change the bytes until the promise resolves. The promise never rejects. */
  put(name: string, bytes: Uint8Array, onNotice: (message: string) => void): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      if (this.#isFull || this.#places.has(name)) {
        return;
      }
      try {
        await this.#write(name, bytes);
      } catch (error) {
        this.#isFull = true;
        onNotice(`no more data is copied to ${this.#folder}; the rest is read from storage each time: ${messageOf(error)}`);
      }
    });
    return this.#writing;
  }

  async #write(name: string, bytes: Uint8Array): Promise<void> {
    if (this.#bytes + bytes.length > this.#limit) {
      throw new Error(`local copies may use at most ${this.#limit} bytes (maxBytes)`);
    }
    if (this.#bytes >= this.#checkAt) {
      const { bavail, bsize } = await statfs(this.#folder);
      if (bavail * bsize - CHECK_EVERY_BYTES < this.#keepFree) {
        throw new Error(`only ${bavail * bsize} bytes are free on the disk (keepFreeBytes)`);
      }
      this.#checkAt = this.#bytes + CHECK_EVERY_BYTES;
    }
    const place: Place = { offset: this.#bytes, length: bytes.length, crc: crc32c(bytes) };
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await this.#blocks.write(bytes, at, bytes.length - at, place.offset + at);
      at += bytesWritten;
    }
    await this.#index.write(`${JSON.stringify([name, place.offset, place.length, place.crc])}\n`);
    this.#bytes += bytes.length;
    this.#places.set(name, place);
  }
}

/** Parses the index. Ignores an incomplete last line, and blocks that extend beyond the end of the blocks file, which has `size` bytes. */
function placesOf(index: string, size: number): Map<string, Place> {
  const places = new Map<string, Place>();
  for (const line of index.split('\n')) {
    const [name, offset, length, crc] = lineSchema.safeParse(parseJson(line)).data ?? ['', 0, 0, 0];
    if (name !== '' && offset + length <= size) {
      places.set(name, { offset, length, crc });
    }
  }
  return places;
}

let taking: Promise<unknown> = Promise.resolve();

/**
 * Returns the previous program's folder if that program has ended, and creates a new folder otherwise. Calls are executed one after
 * another, so two calls cannot reuse the same folder.
 */
function takeFolder(place: string | undefined): Promise<string> {
  const taken = taking.then(() => reuseFolder(place));
  taking = taken.catch(() => undefined);
  return taken;
}

async function reuseFolder(place: string | undefined): Promise<string> {
  const base = place ?? (await containerScratch());
  if (base === null) {
    return await createScratchFolder();
  }
  const folder = join(base, '.tony-ts-copies');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const owner = join(folder, 'owner');
  if (!(await writeIfAbsent(owner, `${process.pid}`, 0o600))) {
    const former = Number(await readFile(owner, 'utf8').catch(() => ''));
    if (former === process.pid || isAlive(former)) {
      return await createScratchFolder(place);
    }
    await rm(owner, { force: true });
    if (!(await writeIfAbsent(owner, `${process.pid}`, 0o600))) {
      return await createScratchFolder(place);
    }
  }
  removeAtEnd(folder);
  return folder;
}
