import { type FileHandle, mkdir, open } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createInflateRaw } from 'node:zlib';
import { intoFile } from '../files/into-file.ts';
import { sideBySide } from '../terminal/side-by-side.ts';

/*
 * A Python wheel is a zip archive (PKWARE's APPNOTE.TXT). All numbers are little endian. The structures used here, from the end of the
 * file:
 *
 *   end of central directory             central directory, one record a file        local header, before each file's bytes
 *    0  u32  0x06054b50                   0  u32  0x02014b50                           0  u32  0x04034b50
 *   10  u16  number of records           10  u16  method: 0 stored, 8 deflate         26  u16  length of name
 *   12  u32  size of the directory       20  u32  compressed size                     28  u16  length of extra
 *   16  u32  offset of the directory     24  u32  size                                30  name, extra, then the bytes
 *   20  u16  length of comment           28  u16  length of name
 *   22  comment                          30  u16  length of extra
 *                                        32  u16  length of comment
 *                                        42  u32  offset of the local header
 *                                        46  name, extra, comment
 *
 * 0xffffffff (and 0xffff records) mark zip64, which archives over 4 GiB need; no pinned wheel uses it.
 */
const END = 0x06054b50;
const RECORD = 0x02014b50;
const LOCAL = 0x04034b50;
const END_SIZE = 22;
const RECORD_SIZE = 46;
const LOCAL_SIZE = 30;
const MAX_DIRECTORY = 64 * 1024 * 1024;

interface Entry {
  readonly name: string;
  readonly method: number;
  readonly compressedSize: number;
  readonly size: number;
  readonly offset: number;
}

/**
 * Unpacks the files of a wheel for which `place` returns a path below `folder` (null: skip). Verifies no checksums, because the checksum of
 * the whole wheel was verified.
 * @returns the paths written, as returned by `place`
 */
export async function unpackWheel(wheel: string, folder: string, place: (name: string) => string | null): Promise<string[]> {
  const file = await open(wheel);
  try {
    const wanted = (await readDirectory(file)).flatMap((entry) => {
      const target = entry.name.endsWith('/') ? null : place(entry.name);
      return target === null ? [] : [{ entry, target }];
    });
    for (const { target } of wanted) {
      if (path.relative(folder, path.resolve(folder, target)).startsWith('..'))
        throw new Error(`${wheel}: ${target} leads out of the archive`);
      await mkdir(path.dirname(path.join(folder, target)), { recursive: true });
    }
    // zlib inflates on its own threads, so the two large libraries of TensorFlow are unpacked concurrently.
    const queue = wanted.toSorted((a, b) => b.entry.size - a.entry.size);
    const worker = async (signal: AbortSignal) => {
      for (let next = queue.shift(); next !== undefined && !signal.aborted; next = queue.shift())
        await unpack(file, next.entry, path.join(folder, next.target));
    };
    // Waits for all writes, even after a failure.
    await sideBySide((signal) => [worker(signal), worker(signal)]);
    return wanted.map(({ target }) => target);
  } finally {
    await file.close();
  }
}

async function readDirectory(file: FileHandle): Promise<Entry[]> {
  const { size } = await file.stat();
  const tail = await read(file, Math.max(0, size - END_SIZE - 0xffff), Math.min(size, END_SIZE + 0xffff));
  let end = tail.length - END_SIZE;
  while (end >= 0 && tail.readUInt32LE(end) !== END) end--;
  if (end < 0) throw new Error('not a zip archive: no end of central directory');
  const count = tail.readUInt16LE(end + 10);
  const length = tail.readUInt32LE(end + 12);
  const offset = tail.readUInt32LE(end + 16);
  if (count === 0xffff || offset === 0xffffffff) throw new Error('a zip64 archive, which is not supported');
  if (length > MAX_DIRECTORY || offset + length > size) throw new Error('a broken zip archive: its directory lies outside of it');
  const directory = await read(file, offset, length);
  const entries: Entry[] = [];
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (at + RECORD_SIZE > length || directory.readUInt32LE(at) !== RECORD)
      throw new Error(`a broken zip archive: record ${i} of its directory`);
    const nameLength = directory.readUInt16LE(at + 28);
    entries.push({
      name: directory.toString('utf8', at + RECORD_SIZE, at + RECORD_SIZE + nameLength),
      method: directory.readUInt16LE(at + 10),
      compressedSize: directory.readUInt32LE(at + 20),
      size: directory.readUInt32LE(at + 24),
      offset: directory.readUInt32LE(at + 42),
    });
    at += RECORD_SIZE + nameLength + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
  }
  return entries;
}

async function unpack(file: FileHandle, entry: Entry, target: string): Promise<void> {
  const header = await read(file, entry.offset, LOCAL_SIZE);
  if (header.readUInt32LE(0) !== LOCAL) throw new Error(`a broken zip archive: no header before ${entry.name}`);
  const start = entry.offset + LOCAL_SIZE + header.readUInt16LE(26) + header.readUInt16LE(28);
  if (![0, 8].includes(entry.method)) throw new Error(`${entry.name} is packed by method ${entry.method}; 0 and 8 are supported`);
  const bytes = Readable.from(pieces(file, start, entry.compressedSize));
  await intoFile(target, 0o666, async (output) => {
    if (entry.method === 8) await pipeline(bytes, createInflateRaw({ chunkSize: PIECE }), output);
    else await pipeline(bytes, output);
    if (output.bytesWritten !== entry.size) throw new Error(`${entry.name} is cut: ${output.bytesWritten} of ${entry.size} bytes`);
  });
}

const PIECE = 1024 * 1024;

/** Reads through a shared file handle; a read stream would own and close it. */
async function* pieces(file: FileHandle, start: number, length: number): AsyncGenerator<Buffer> {
  for (let done = 0; done < length; done += PIECE) yield await read(file, start + done, Math.min(PIECE, length - done));
}

async function read(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(buffer, done, length - done, position + done);
    if (bytesRead === 0) throw new Error('a broken zip archive: it is cut');
    done += bytesRead;
  }
  return buffer;
}
