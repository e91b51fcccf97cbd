import type { ByteCursor } from './byte-cursor.ts';
import {
  type BlockRange,
  openBlock,
  type RangeSource,
  type Region,
  readBlockIndex,
  readKey,
  type TFileCompression,
  ValueCursor,
} from './tfile.ts';

/*
 * For each application, a NodeManager writes an aggregated log to HDFS. The file is a TFile with these records:
 *
 *   key    UTF (int16 length, UTF-8): VERSION, APPLICATION_ACL, APPLICATION_OWNER, or a container ID
 *   value  if the key is a container ID, for each log file: UTF name, UTF length in decimal digits, content
 */

/** A container's log file and its location in an aggregated log. */
export interface AggregatedFile {
  readonly containerId: string;
  readonly name: string;
  readonly size: number;
  readonly compression: TFileCompression;
  readonly block: Region;
  /** The spans within the block that contain the file's bytes, in file order. */
  readonly spans: readonly BlockRange[];
}

/**
 * Maximum number of files and spans in one aggregated log. Users can write to the folder, so without this limit, a crafted log could use
 * too much memory. NodeManagers write chunks of 1 MiB and stay far below this limit.
 */
const MAXIMUM_PARTS = 200_000;
const LONGEST_NAME = 1_024;

/** Lists the log files in an aggregated log. Throws a RangeError if the file is not an aggregated log or has too many parts. */
export async function indexAggregatedLog(source: RangeSource, most = MAXIMUM_PARTS): Promise<AggregatedFile[]> {
  const { compression, blocks } = await readBlockIndex(source);
  const files: AggregatedFile[] = [];
  let parts = 0;
  for (const block of blocks) {
    const cursor = await openBlock(source, compression, block);
    try {
      while (!(await cursor.isAtEnd())) {
        for await (const file of readRecord(cursor, compression, block, most - parts)) {
          files.push(file);
          parts += 1 + file.spans.length;
          if (parts > most) {
            throw tooManyParts();
          }
        }
      }
    } finally {
      cursor.close();
    }
  }
  return files;
}

/** Returns the number of files and spans, as a measure of memory usage. */
export function partsOf(files: readonly AggregatedFile[]): number {
  return files.reduce((sum, { spans }) => sum + 1 + spans.length, 1);
}

function tooManyParts(): RangeError {
  return new RangeError('more files and chunks than a NodeManager writes');
}

export async function readAggregatedFile(source: RangeSource, file: AggregatedFile, offset: number, length: number): Promise<Buffer> {
  const spans = clip(file.spans, offset, length);
  const [first] = spans;
  if (first === undefined) {
    return Buffer.alloc(0);
  }
  const cursor = await openBlock(source, file.compression, file.block, first.at);
  // For an uncompressed block, the cursor counts from `first.at`. For a compressed block, it counts from the start of the block.
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

async function* readRecord(cursor: ByteCursor, compression: TFileCompression, block: Region, most: number): AsyncGenerator<AggregatedFile> {
  const key = await readKey(cursor);
  const containerId = key.subarray(2).toString('utf8');
  const value = new ValueCursor(cursor);
  if (containerId.startsWith('container_') && containerId.length <= LONGEST_NAME) {
    while (!(await value.isAtEnd())) {
      const name = await value.takeUtf();
      const digits = await value.takeUtf();
      if (!/^\d{1,15}$/.test(digits)) {
        throw new RangeError(`"${digits.slice(0, 100)}" is not the length of a log file`);
      }
      if (name.length > LONGEST_NAME) {
        throw new RangeError(`an invalid file name of ${name.length} characters`);
      }
      const size = Number(digits);
      const spans = await value.locate(size, most);
      if (spans === null) {
        throw tooManyParts();
      }
      yield { containerId, name, size, compression, block, spans };
    }
  } else {
    await value.skipRest();
  }
}

/** Returns the parts of the spans that contain the `length` bytes starting at `offset`. */
function clip(spans: readonly BlockRange[], offset: number, length: number): BlockRange[] {
  const clipped: BlockRange[] = [];
  let start = 0;
  for (const span of spans) {
    const from = Math.max(offset, start);
    const to = Math.min(offset + length, start + span.length);
    if (to > from) {
      clipped.push({ at: span.at + from - start, length: to - from });
    }
    start += span.length;
  }
  return clipped;
}
