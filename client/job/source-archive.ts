import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import { TonyError } from '../../platform/errors.ts';
import { NAMES_FILE, type OriginalNames, PortableNames } from '../../platform/files/portable-names.ts';
import type { FolderEntry, FolderListing } from './source-folder.ts';

/**
 * Version of the archive format. Increment it with every code change that alters the bytes in an archive. Otherwise, jobs would use cached
 * archives in the old format.
 */
const FORMAT = 'tony-archive-2';
/** Modification time of every entry. It is constant, because archives must depend only on names and contents. */
const MODIFIED = new Date('2000-01-01T00:00:00Z');
const BLOCK = 512;
const FILES_AT_ONCE = 16;

/** Entries in a folder, with a hash of their names, contents, executable bits and links. */
export interface HashedFolder extends FolderListing {
  /** Hexadecimal SHA-256. */
  readonly hash: string;
  /** SHA-256 of each file. The keys are paths. */
  readonly digests: ReadonlyMap<string, string>;
  /** True if the archive contains placeholders for names that not every NodeManager can unpack. */
  readonly portable: boolean;
}

/** @param options.portable true only if the program that uses the unpacked archive restores the names, see `restoreNames` */
export async function hashFolder(listing: FolderListing, { portable = false } = {}): Promise<HashedFolder> {
  const digests = new Map<string, string>();
  const files = listing.entries.filter((entry) => entry.type === 'file');
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let file = files[next++]; file !== undefined; file = files[next++]) {
      digests.set(file.path, await hashFile(path.join(listing.root, file.path)));
    }
  };
  await Promise.all(Array.from({ length: FILES_AT_ONCE }, worker));
  const hash = createHash('sha256').update(portable ? `${FORMAT} portable` : FORMAT);
  for (const entry of listing.entries) {
    hash.update(`\n${JSON.stringify(identity(entry, digests.get(entry.path)))}`);
  }
  return { ...listing, hash: hash.digest('hex'), digests, portable };
}

export async function hashFile(file: string): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) {
      hash.update(chunk as Buffer);
    }
  } catch (error) {
    throw new TonyError('SOURCE_UNREADABLE', `Cannot read ${file}.`, { cause: error });
  }
  return hash.digest('hex');
}

function identity(entry: FolderEntry, digest: string | undefined): readonly (string | number | boolean | undefined)[] {
  switch (entry.type) {
    case 'folder':
      return ['folder', entry.path];
    case 'link':
      return ['link', entry.path, entry.target];
    case 'file':
      return ['file', entry.path, entry.size, entry.executable, digest];
  }
}

/**
 * Packs a folder as a tar.gz file whose bytes depend only on names and contents. The stream fails if a file has changed since it was
 * hashed, because the cache stores the archive under that hash. Uses compression level 1, because higher levels cost more time than the
 * smaller upload saves.
 */
export function packFolder(folder: HashedFolder): Readable {
  const gzip = createGzip({ level: 1 });
  const tar = Readable.from(tarBlocks(folder), { objectMode: false });
  tar.on('error', (error) => gzip.destroy(error));
  gzip.on('close', () => tar.destroy());
  return tar.pipe(gzip);
}

const TAR_TYPES = { folder: 'Directory', link: 'SymbolicLink', file: 'File' } as const;

function modeOf(entry: FolderEntry): number {
  return entry.type === 'file' && !entry.executable ? 0o644 : 0o755;
}

/** Writes the ustar format, with pax headers for long names (POSIX.1-2008, pax, "ustar Interchange Format"). */
async function* tarBlocks(folder: HashedFolder): AsyncGenerator<Buffer> {
  const encoder = await createEncoder();
  const names = folder.portable ? new PortableNames() : null;
  const links: OriginalNames['links'][number][] = [];
  for (const entry of folder.entries) {
    const place = names?.pathOf(entry.path) ?? entry.path;
    if (names !== null && entry.type === 'link' && names.pathOf(entry.target) !== entry.target) {
      links.push({ path: place, target: entry.target });
      continue;
    }
    yield* encoder({ ...entry, path: place });
    if (entry.type === 'file') {
      yield* paddedContent(path.join(folder.root, entry.path), entry.size, folder.digests.get(entry.path));
    }
  }
  if (names !== null && names.names.length > 0) {
    const list: OriginalNames = { names: names.names, links };
    const content = Buffer.from(JSON.stringify(list));
    yield* encoder({ type: 'file', path: NAMES_FILE, size: content.length, executable: false });
    yield content;
    yield padding(content.length);
  }
  yield Buffer.alloc(2 * BLOCK);
}

/** Returns a function that encodes an entry's headers. */
async function createEncoder(): Promise<(entry: FolderEntry) => Generator<Buffer>> {
  const { Header, Pax } = await import('tar');
  return function* encode(entry) {
    const link = entry.type === 'link' ? { linkpath: entry.target } : {};
    const named = {
      path: entry.type === 'folder' ? `${entry.path}/` : entry.path,
      size: entry.type === 'file' ? entry.size : 0,
      mtime: MODIFIED,
      ...link,
    };
    const header = new Header({ ...named, type: TAR_TYPES[entry.type], mode: modeOf(entry), uid: 0, gid: 0 });
    if (header.encode()) {
      yield new Pax(named).encode();
    }
    if (header.block !== undefined) {
      yield header.block;
    }
  };
}

async function* paddedContent(file: string, size: number, digest: string | undefined): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  let sent = 0;
  // `end` is inclusive, so the stream reads up to one byte more than `size`. If it finds that byte, the file has grown.
  for await (const chunk of createReadStream(file, { end: size, highWaterMark: 256 * 1024 })) {
    sent += (chunk as Buffer).length;
    if (sent > size) {
      break;
    }
    hash.update(chunk as Buffer);
    yield chunk as Buffer;
  }
  if (sent !== size || hash.digest('hex') !== digest) {
    throw new TonyError('SOURCE_UNREADABLE', `${file} changed while it was packed.`, {
      hint: 'Submit the job again when no program is writing to this file.',
    });
  }
  yield padding(size);
}

function padding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
}
