import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { create } from 'tar';
import { intoFile } from '../files/into-file.ts';

export interface Archive {
  readonly sha256: string;
  readonly size: number;
}

const compress = promisify(gzip);
const BLOCK = 4 * 1024 * 1024;
/** Number of blocks that zlib's threads compress concurrently. A larger number uses more memory. */
const AHEAD = 4;
/** Earliest date that zip archives can represent. Some programs warn about earlier dates. */
const MTIME = new Date('1980-01-01T00:00:00Z');

/**
 * Packs a folder as a reproducible .tar.gz. The archive depends only on the names, modes and contents of the files. Compresses blocks in
 * parallel as separate gzip members, because RFC 1952 (section 2.2) allows concatenated members. Uses compression level 1, because higher
 * levels hardly reduce the size of machine code.
 */
export async function packFolder(folder: string, output: string): Promise<Archive> {
  const files = (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)))
    .sort();
  const hash = createHash('sha256');
  let size = 0;
  const tar = create({ cwd: folder, portable: true, mtime: MTIME, noDirRecurse: true, strict: true }, files);
  await intoFile(output, 0o644, (stream) =>
    pipeline(
      blocks(tar as AsyncIterable<Buffer>),
      compressed,
      async function* (members: AsyncIterable<Buffer>) {
        for await (const member of members) {
          hash.update(member);
          size += member.length;
          yield member;
        }
      },
      stream,
    ),
  );
  return { sha256: hash.digest('hex'), size };
}

async function* blocks(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    held.push(chunk);
    length += chunk.length;
    if (length >= BLOCK) {
      yield Buffer.concat(held);
      held = [];
      length = 0;
    }
  }
  if (length > 0) {
    yield Buffer.concat(held);
  }
}

async function* compressed(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const running: Promise<Buffer>[] = [];
  for await (const chunk of chunks) {
    running.push(compress(chunk, { level: 1 }));
    const [first] = running;
    if (running.length >= AHEAD && first !== undefined) {
      yield await first;
      running.shift();
    }
  }
  for (const member of running) {
    yield await member;
  }
}
