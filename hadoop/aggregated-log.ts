import type { ByteCursor } from './byte-cursor.ts';
import { type ByteSource, type Compression, openBlock, type Region, readBlockIndex, readKey, type Span, ValueCursor } from './tfile.ts';

/*
 * What a NodeManager leaves of an application's logs on HDFS: a TFile with
 *
 *   key    UTF (int16 length, UTF-8): VERSION, APPLICATION_ACL, APPLICATION_OWNER, or the id of a container
 *   value  of a container, for each of its files: UTF name, UTF length in decimal digits, the bytes
 */

/** One log file of one container, and where it lies. */
export interface AggregatedFile {
  readonly containerId: string;
  readonly name: string;
  readonly size: number;
  readonly compression: Compression;
  readonly block: Region;
  /** Its bytes, in order. */
  readonly spans: readonly Span[];
}

/** Looks through the whole file once. Throws a RangeError for what is no aggregated log. */
export async function indexAggregatedLog(source: ByteSource): Promise<AggregatedFile[]> {
  const { compression, blocks } = await readBlockIndex(source);
  const files: AggregatedFile[] = [];
  for (const block of blocks) {
    const cursor = await openBlock(source, compression, block);
    try {
      while (!(await cursor.isAtEnd())) files.push(...(await readRecord(cursor, compression, block)));
    } finally {
      cursor.close();
    }
  }
  return files;
}

/** A part of a log file. */
export async function readAggregatedFile(source: ByteSource, file: AggregatedFile, offset: number, length: number): Promise<Buffer> {
  const spans = clip(file.spans, offset, length);
  const [first] = spans;
  if (first === undefined) return Buffer.alloc(0);
  const cursor = await openBlock(source, file.compression, file.block, first.at);
  // A cursor counts from where it was opened, or, unpacking, from the block's start.
  const base = first.at - cursor.position;
  const parts: Buffer[] = [];
  try {
    for (const { at, length: size } of spans) {
      await cursor.skip(at - base - cursor.position);
      parts.push(await cursor.take(size));
    }
  } finally {
    cursor.close();
  }
  return Buffer.concat(parts);
}

async function readRecord(cursor: ByteCursor, compression: Compression, block: Region): Promise<AggregatedFile[]> {
  const key = await readKey(cursor);
  const containerId = key.subarray(2).toString('utf8');
  const value = new ValueCursor(cursor);
  const files: AggregatedFile[] = [];
  if (containerId.startsWith('container_')) {
    while (!(await value.isAtEnd())) {
      const name = await value.takeUtf();
      const digits = await value.takeUtf();
      if (!/^\d{1,15}$/.test(digits)) throw new RangeError(`"${digits}" is not the length of a log file`);
      const size = Number(digits);
      files.push({ containerId, name, size, compression, block, spans: await value.locate(size) });
    }
  } else {
    await value.skipRest();
  }
  return files;
}

/** The spans' part from `offset` on, `length` bytes of it. */
function clip(spans: readonly Span[], offset: number, length: number): Span[] {
  const clipped: Span[] = [];
  let start = 0;
  for (const span of spans) {
    const from = Math.max(offset, start);
    const to = Math.min(offset + length, start + span.length);
    if (to > from) clipped.push({ at: span.at + from - start, length: to - from });
    start += span.length;
  }
  return clipped;
}
