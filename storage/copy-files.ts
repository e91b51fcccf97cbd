import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { TonyError } from '../platform/errors.ts';
import type { Storage } from './storage.ts';
import { joinUri } from './uri.ts';

/** Maximum number of files in a folder and its sub-folders. */
export const MOST_FILES = 10_000;

export interface CopiedFile {
  /** Path relative to the folder, with `/` as the separator. */
  readonly name: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** Computes a stream's length and checksum. */
class Measure {
  readonly #hash = createHash('sha256');
  #bytes = 0;

  async *pass(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
    for await (const piece of pieces) {
      this.#hash.update(piece);
      this.#bytes += piece.length;
      yield piece;
    }
  }

  /** Returns the length and checksum. May be called only once, after the last piece. */
  result(): Omit<CopiedFile, 'name'> {
    return { bytes: this.#bytes, sha256: this.#hash.digest('hex') };
  }
}

/**
 * Uploads all files in a local folder and its sub-folders.
 * @throws TonyError DATA_INVALID if the folder contains an entry that is neither a file nor a folder, or too many files
 */
export async function uploadFolder(storage: Storage, local: string, uri: string, signal: AbortSignal): Promise<CopiedFile[]> {
  const copied: CopiedFile[] = [];
  for (const name of await listFiles(local)) {
    signal.throwIfAborted();
    const file = path.join(local, name);
    let measure = new Measure();
    // The storage calls this function again if it retries the file's upload.
    const pieces = () => {
      measure = new Measure();
      return measure.pass(createReadStream(file, { signal }) as AsyncIterable<Buffer>);
    };
    await storage.write(joinUri(uri, ...name.split('/')), pieces, { length: (await stat(file)).size });
    copied.push({ name, ...measure.result() });
  }
  return copied;
}

/**
 * Returns the paths of all files in a folder and its sub-folders, relative to the folder.
 * @throws TonyError DATA_INVALID, like `uploadFolder`
 */
export async function listFiles(local: string, prefix = ''): Promise<string[]> {
  const names: string[] = [];
  for (const entry of await readdir(path.join(local, prefix), { withFileTypes: true })) {
    const name = `${prefix}${entry.name}`;
    if (entry.isDirectory()) {
      names.push(...(await listFiles(local, `${name}/`)));
    } else if (entry.isFile()) {
      names.push(name);
    } else {
      const kind = entry.isSymbolicLink() ? 'a symbolic link' : 'neither a file nor a folder';
      throw new TonyError('DATA_INVALID', `${path.join(local, name)} is ${kind}`, {
        hint: 'Remove it from the folder, or replace a link by a copy of its file.',
      });
    }
    if (names.length > MOST_FILES) {
      throw new TonyError('DATA_INVALID', `${local} contains more than ${MOST_FILES} files`);
    }
  }
  return names.sort();
}

/** Downloads one file. Creates the local folder if it is missing. Resolves with the file's length and checksum. */
export async function downloadFile(storage: Storage, uri: string, file: string, signal: AbortSignal): Promise<Omit<CopiedFile, 'name'>> {
  await mkdir(path.dirname(file), { recursive: true });
  const measure = new Measure();
  const source = await storage.open(uri);
  await pipeline(source, (pieces: AsyncIterable<Buffer>) => measure.pass(pieces), createWriteStream(file), { signal });
  return measure.result();
}

/** Downloads all files in a folder and its sub-folders. */
export async function downloadFolder(storage: Storage, uri: string, local: string, signal: AbortSignal): Promise<CopiedFile[]> {
  const copied: CopiedFile[] = [];
  const copy = async (from: string, prefix: string): Promise<void> => {
    await mkdir(path.join(local, prefix), { recursive: true });
    for (const entry of await storage.list(from)) {
      signal.throwIfAborted();
      // An object store accepts keys such as a/../b, whose file would be outside the local folder.
      if (entry.name === '.' || entry.name === '..') {
        throw new TonyError('DATA_INVALID', `${from} contains an entry with the name ${entry.name}`);
      }
      const name = `${prefix}${entry.name}`;
      if (entry.type === 'folder') {
        await copy(entry.uri, `${name}/`);
      } else if (copied.length === MOST_FILES) {
        throw new TonyError('DATA_INVALID', `${uri} contains more than ${MOST_FILES} files`);
      } else {
        copied.push({ name, ...(await downloadFile(storage, entry.uri, path.join(local, name), signal)) });
      }
    }
  };
  await copy(uri, '');
  return copied;
}
