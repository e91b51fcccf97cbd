import { type FileHandle, mkdir, open, rename, rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { backoffMs } from '../../platform/async/backoff.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { untilAborted } from '../../platform/async/until-aborted.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { Storage } from '../../storage/storage.ts';
import { repeatPasses } from '../repeat-passes.ts';

interface StoredFile {
  /** The path relative to the mirrored folder, separated by `/`. */
  readonly name: string;
  readonly uri: string;
  readonly size: number;
  /** Milliseconds since the epoch. */
  readonly modifiedAt: number;
}

export interface MirrorLimits {
  /** The maximum number of files and folders in a listing. */
  readonly files: number;
  readonly depth: number;
  /** The maximum total size on disk, in bytes. */
  readonly bytes: number;
  /** The maximum size in bytes of a file without events, such as a sprite image for the Embedding Projector. */
  readonly otherBytes: number;
  /**
   * The number of bytes at the end of the copy that the mirror compares with the file, to detect a replaced file. Two different files
   * differ in these bytes, because each event contains its time and checksums.
   */
  readonly overlapBytes: number;
}

const MIRROR_LIMITS: MirrorLimits = {
  files: 50_000,
  depth: 16,
  bytes: 16 * 1024 ** 3,
  otherBytes: 64 * 1024 ** 2,
  overlapBytes: 64,
};

interface MirrorPlan {
  readonly removed: readonly string[];
  readonly folders: readonly (readonly StoredFile[])[];
  /** The reason why some files are not copied, or an empty string if all files are copied. */
  readonly refusal: string;
}

/** Computes which files to remove and which to read. If the space is limited, event files take precedence. */
function planOf(
  found: readonly StoredFile[],
  copies: ReadonlyMap<string, { readonly bytes: number; readonly modifiedAt: number }>,
  limits: MirrorLimits,
): MirrorPlan {
  const wanted = found.filter((file) => isEventFile(file.name) || (file.size <= limits.otherBytes && isFinished(file.name)));
  const names = new Set(wanted.map(({ name }) => name));
  const removed = [...copies.keys()].filter((name) => !names.has(name));
  const folders = new Map<string, StoredFile[]>();
  let bytes = 0;
  let omitted = 0;
  // Files that are already copied come first, then the newest files.
  const order = wanted.toSorted((a, b) => rank(a, copies) - rank(b, copies) || b.modifiedAt - a.modifiedAt);
  for (const file of order) {
    if (bytes + file.size > limits.bytes) {
      omitted += file.size;
      continue;
    }
    bytes += file.size;
    const copy = copies.get(file.name);
    if (copy !== undefined && copy.bytes === file.size && copy.modifiedAt === file.modifiedAt) {
      continue;
    }
    const folder = file.name.slice(0, Math.max(0, file.name.lastIndexOf('/')));
    const files = folders.get(folder);
    if (files === undefined) {
      folders.set(folder, [file]);
    } else {
      files.push(file);
    }
  }
  const sorted = [...folders.values()].map((files) => files.sort((a, b) => (a.name < b.name ? -1 : 1)));
  return { removed, folders: sorted, refusal: omitted === 0 ? '' : refusal(bytes, omitted, limits) };
}

function rank(file: StoredFile, copies: ReadonlyMap<string, unknown>): number {
  return (isEventFile(file.name) ? 0 : 2) + (copies.has(file.name) ? 0 : 1);
}

function refusal(bytes: number, omitted: number, limits: MirrorLimits): string {
  return `The summaries are larger than the ${gigabytes(limits.bytes)} that TensorBoard copies to its disk: ${gigabytes(bytes)} are shown, ${gigabytes(omitted)} are not.`;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

function isEventFile(name: string): boolean {
  return name.slice(name.lastIndexOf('/') + 1).includes('tfevents');
}

/** Returns false for a file that Hadoop or tony-ts is still writing. */
function isFinished(name: string): boolean {
  const last = name.slice(name.lastIndexOf('/') + 1);
  return !last.startsWith('.') && !last.endsWith('._COPYING_');
}

/** Returns true if the name is a single path segment, so that it cannot leave the folder. */
function isSafeName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name);
}

/** The deadline in ms for listing a folder and for each chunk of a file. */
const ANSWER_MS = 60_000;
const MAX_CONCURRENT = 4;
const FIRST_PAUSE_MS = 1_000;
const PAUSE_MS = 5_000;
const LONGEST_BACKOFF_MS = 60_000;
const COPYING_SHARE = 0.5;
/** How long after its start the mirror polls more often, in ms, so that a new job's first curves appear quickly. */
const EAGER_MS = 60_000;

export interface MirrorOptions {
  readonly storage: Storage;
  /** The URI of the folder to copy. The folder may not exist yet. */
  readonly source: string;
  /** The absolute path of a folder that only the mirror writes to. */
  readonly folder: string;
  readonly log: Logger;
  /** Called after the mirror has replaced a file that TensorBoard may have read. */
  readonly onReplaced: () => void;
  readonly limits?: Partial<MirrorLimits>;
}

/** The size of the local copy of a file, and the file's modification time in the storage when it was read. */
interface Copy {
  bytes: number;
  modifiedAt: number;
}

/**
 * Keeps a local copy of a folder, and reads only the new bytes of each file. The files in a folder appear in name order, as event file
 * readers expect.
 */
export class Mirror {
  readonly #options: MirrorOptions;
  readonly #limits: MirrorLimits;
  /** The folder for incomplete files. Complete files are moved to their final names. */
  readonly #incoming: string;
  readonly #copies = new Map<string, Copy>();
  readonly #closing = new AbortController();
  #copied = (): void => {};
  /** Resolves after the first attempt to copy the whole folder. */
  readonly initialCopy = new Promise<void>((resolve) => {
    this.#copied = resolve;
  });
  #problem = '';
  #sequence = 0;
  #running: Promise<void> | null = null;

  constructor(options: MirrorOptions) {
    this.#options = options;
    this.#limits = { ...MIRROR_LIMITS, ...options.limits };
    this.#incoming = `${options.folder}.incoming`;
  }

  /** The reason why the copy is outdated or incomplete, or an empty string if the copy is up to date. */
  get problem(): string {
    return this.#problem;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const startedAt = performance.now();
    let failures = 0;
    const pass = async (): Promise<number> => {
      failures = (await this.refresh()) ? 0 : failures + 1;
      this.#copied();
      const usual = performance.now() - startedAt < EAGER_MS ? FIRST_PAUSE_MS : PAUSE_MS;
      return backoffMs(failures + 1, { firstMs: usual, mostMs: LONGEST_BACKOFF_MS });
    };
    await repeatPasses(pass, { share: COPYING_SHARE, signal: this.#closing.signal });
  }

  /** Lists the folder and copies new data. Returns false if any part failed. */
  async refresh(): Promise<boolean> {
    try {
      const { found, cut } = await this.#list();
      const plan = planOf(found, this.#copies, this.#limits);
      for (const name of plan.removed) {
        await this.#remove(name);
      }
      const failed = await this.#copyAll(plan.folders);
      this.#report(failed ?? (cut ? `Only the first ${this.#limits.files} files of the summaries are shown.` : plan.refusal));
      return failed === null;
    } catch (error) {
      if (this.#closing.signal.aborted) {
        return false;
      }
      this.#report(`The summaries cannot be read at the moment: ${messageOf(error)}`);
      return false;
    }
  }

  #report(problem: string): void {
    if (problem !== this.#problem && problem !== '') {
      this.#options.log.warn(problem);
    }
    this.#problem = problem;
  }

  async #list(): Promise<{ found: StoredFile[]; cut: boolean }> {
    const { storage, source } = this.#options;
    const found: StoredFile[] = [];
    const folders = [{ uri: source, name: '', depth: 0 }];
    let seen = 0;
    const list = async (folder: { uri: string; name: string; depth: number }): Promise<void> => {
      const entries = await this.#inTime(storage.list(folder.uri), `the listing of ${folder.uri}`);
      for (const entry of entries) {
        if (!isSafeName(entry.name)) {
          continue;
        }
        const name = folder.name === '' ? entry.name : `${folder.name}/${entry.name}`;
        if (++seen > this.#limits.files) {
          return;
        }
        if (entry.type === 'file') {
          found.push({ name, uri: entry.uri, size: entry.size, modifiedAt: entry.modifiedAt });
        } else if (folder.depth < this.#limits.depth) {
          folders.push({ uri: entry.uri, name, depth: folder.depth + 1 });
        }
      }
    };
    while (folders.length > 0 && seen <= this.#limits.files) {
      await Promise.all(folders.splice(0, MAX_CONCURRENT).map(list));
    }
    return { found, cut: seen > this.#limits.files };
  }

  /**
   * Copies folders in parallel, and the files in each folder in order. Returns the message of the first failure, or null if all copies
   * succeeded.
   */
  async #copyAll(folders: readonly (readonly StoredFile[])[]): Promise<string | null> {
    const queue = [...folders];
    let failed: string | null = null;
    const worker = async (): Promise<void> => {
      for (let files = queue.shift(); files !== undefined && !this.#closing.signal.aborted; files = queue.shift()) {
        for (const file of files) {
          try {
            await this.#copy(file);
          } catch (error) {
            failed ??= `The summaries could not be copied: ${messageOf(error)}`;
            // The folder's remaining files must not appear before this file.
            break;
          }
        }
      }
    };
    await Promise.all(Array.from({ length: MAX_CONCURRENT }, worker));
    return failed;
  }

  async #copy(file: StoredFile): Promise<void> {
    const copy = this.#copies.get(file.name);
    if (copy !== undefined && file.size >= copy.bytes && (await this.#append(file, copy))) {
      return;
    }
    const replaced = copy !== undefined && copy.bytes > 0;
    await this.#replace(file);
    if (replaced) {
      this.#options.onReplaced();
    }
  }

  /** Appends a file's new bytes. Returns false if another file has replaced the copied file. */
  async #append(file: StoredFile, copy: Copy): Promise<boolean> {
    const target = this.#pathOf(file.name);
    const overlap = Math.min(copy.bytes, this.#limits.overlapBytes);
    const handle = await open(target, 'r+');
    try {
      const known = Buffer.alloc(overlap);
      await handle.read(known, 0, overlap, copy.bytes - overlap);
      let compared = 0;
      for await (const chunk of this.#bytes(file, copy.bytes - overlap)) {
        const old = Math.min(chunk.length, overlap - compared);
        if (!chunk.subarray(0, old).equals(known.subarray(compared, compared + old))) {
          return false;
        }
        compared += old;
        await writeAt(handle, chunk.subarray(old), copy.bytes);
        copy.bytes += chunk.length - old;
      }
      if (compared < overlap) {
        return false;
      }
      copy.modifiedAt = file.modifiedAt;
      return true;
    } finally {
      await handle.close();
    }
  }

  async #replace(file: StoredFile): Promise<void> {
    await mkdir(this.#incoming, { recursive: true, mode: 0o700 });
    const temporary = path.join(this.#incoming, String(this.#sequence++));
    const target = this.#pathOf(file.name);
    try {
      const handle = await open(temporary, 'wx', 0o600);
      let bytes = 0;
      try {
        for await (const chunk of this.#bytes(file, 0)) {
          await writeAt(handle, chunk, bytes);
          bytes += chunk.length;
        }
      } finally {
        await handle.close();
      }
      await this.#makeRoom(file.name);
      await rename(temporary, target);
      this.#copies.set(file.name, { bytes, modifiedAt: file.modifiedAt });
    } finally {
      await rm(temporary, { force: true });
    }
  }

  /** Reads from `offset` to the listed size. The next refresh reads bytes that are appended later. */
  async *#bytes(file: StoredFile, offset: number): AsyncGenerator<Buffer> {
    if (offset >= file.size) {
      return;
    }
    const opened = this.#options.storage.open(file.uri, { offset, length: file.size - offset });
    const stream = await this.#inTime(opened, file.uri).catch((error: unknown) => {
      opened.then(
        (late) => late.destroy(),
        () => {},
      );
      throw error;
    });
    const iterator = stream[Symbol.asyncIterator]();
    try {
      for (;;) {
        const { done, value } = await this.#inTime(iterator.next(), file.uri);
        if (done) {
          return;
        }
        yield value as Buffer;
      }
    } finally {
      stream.destroy();
    }
  }

  /** Rejects if `work` exceeds the deadline or the mirror is closed. */
  #inTime<T>(work: Promise<T>, what: string): Promise<T> {
    return withTimeout(untilAborted(work, this.#closing.signal), ANSWER_MS, () => {
      throw new Error(`${what}: no answer within ${ANSWER_MS / 1000} s`);
    });
  }

  /** Removes any file or folder at the path, because in the storage, a folder may have been replaced by a file, or vice versa. */
  async #makeRoom(name: string): Promise<void> {
    const folder = path.dirname(this.#pathOf(name));
    await rm(this.#pathOf(name), { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
  }

  async #remove(name: string): Promise<void> {
    this.#copies.delete(name);
    await rm(this.#pathOf(name), { recursive: true, force: true });
    // Removes empty parent folders, because TensorBoard shows every existing folder as a run.
    for (let folder = path.dirname(name); folder !== '.'; folder = path.dirname(folder)) {
      const removed = await rmdir(this.#pathOf(folder)).then(
        () => true,
        () => false,
      );
      if (!removed) {
        return;
      }
    }
  }

  #pathOf(name: string): string {
    return path.join(this.#options.folder, name);
  }
}

async function writeAt(handle: FileHandle, data: Buffer, position: number): Promise<void> {
  for (let done = 0; done < data.length; ) {
    done += (await handle.write(data, done, data.length - done, position + done)).bytesWritten;
  }
}
