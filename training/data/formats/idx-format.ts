import { type Column, type IdxHeader, MAX_HEADER_BYTES, parseIdxHeader } from '../../../contract/encoding/idx.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { DataFile } from '../reading/file-set.ts';
import type { ReadContext } from '../reading/read-context.ts';
import type { FileFormat, Split } from '../reading/split.ts';
import { type Compression, compressionOf, readContents } from './file-bytes.ts';
import { MAX_RECORD_BYTES } from './tfrecord-format.ts';

export interface IdxOptions {
  /** How the files are compressed. By default, the file name decides (`.gz`, `.zlib`). */
  readonly compression?: Compression;
  /** Maximum size of a record in bytes. A file with larger records is rejected. Default: 256 MiB. */
  readonly maxRecordBytes?: number;
}

/**
 * An IDX record. If the file has only one dimension, each record is a number. Otherwise, each record is a column with the remaining
 * dimensions.
 */
export type IdxRecord = number | Column;

/**
 * Creates the format for IDX files (see idx.ts). Each element combines the records at the same index in a file and its companion files. All
 * records have the same length, so a split may begin anywhere. A record belongs to the split that contains its first byte. Positions are
 * record indices.
 * @param combine creates an element from the values of all columns, in order.
 */
export function idxFormat<T>(options: IdxOptions, combine: (values: readonly IdxRecord[]) => T): FileFormat<T> {
  const packing = (file: DataFile) => compressionOf(file, options.compression ?? 'auto');
  return {
    isSplittable: (file) => [file, ...(file.companions ?? [])].every((each) => packing(each) === 'none'),
    async *read(split, from, context) {
      const files = [split.file, ...(split.file.companions ?? [])];
      const layouts = await Promise.all(files.map((file) => layoutOf(file, packing(file), options, context)));
      const [main] = layouts as [Layout];
      const odd = layouts.find(({ records }) => records !== main.records);
      if (odd !== undefined) {
        throw new TonyError('DATA_INVALID', `${main.file.uri} has ${main.records} records, but ${odd.file.uri} has ${odd.records}`);
      }
      const [first, last] = recordsOf(split, main);
      let at = Math.max(first, (from as number | null) ?? 0);
      const columns = layouts.map((layout) => readColumn(layout, at, last, context));
      try {
        const ready: IdxRecord[][] = columns.map(() => []);
        while (at < last) {
          let bytes = 0;
          for (const [index, column] of columns.entries()) {
            if ((ready[index] as IdxRecord[]).length > 0) {
              continue;
            }
            const { value } = await column.next();
            ready[index] = value?.records ?? [];
            bytes += value?.bytes ?? 0;
          }
          const count = Math.min(...ready.map(({ length }) => length));
          const parts = ready.map((records) => records.splice(0, count));
          const items = Array.from({ length: count }, (_, row) => combine(parts.map((records) => records[row] as IdxRecord)));
          yield { items, from: at, bytes };
          at += count;
        }
      } finally {
        await Promise.all(columns.map((column) => column.return()));
      }
    },
  };
}

interface Layout {
  readonly file: DataFile;
  readonly packing: 'none' | 'gzip' | 'zlib';
  readonly header: IdxHeader;
  readonly records: number;
  readonly shape: readonly number[];
  readonly values: number;
  readonly recordBytes: number;
}

async function layoutOf(file: DataFile, packing: Layout['packing'], options: IdxOptions, context: ReadContext): Promise<Layout> {
  const header = parseIdxHeader(await readHead(file, packing, context), file.uri);
  const [records = 0, ...shape] = header.shape;
  const values = shape.reduce((product, size) => product * size, 1);
  const recordBytes = values * header.valueBytes;
  const { maxRecordBytes = MAX_RECORD_BYTES } = options;
  // A product of 0 and infinity is not a number.
  if (header.shape.length === 0 || recordBytes === 0 || Number.isNaN(recordBytes)) {
    throw new TonyError('DATA_INVALID', `${file.uri} has records without values`);
  }
  if (recordBytes > maxRecordBytes) {
    throw new TonyError(
      'DATA_INVALID',
      `${file.uri} has records of ${recordBytes} bytes; the maximum is ${maxRecordBytes} (maxRecordBytes)`,
    );
  }
  const size = header.bytes + records * recordBytes;
  if (packing === 'none' && file.size !== size) {
    throw new TonyError('DATA_INVALID', `${file.uri} has ${file.size} bytes; its header (${header.shape.join(' x ')}) requires ${size}`);
  }
  return { file, packing, header, records, shape, values, recordBytes };
}

async function readHead(file: DataFile, packing: Layout['packing'], context: ReadContext): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of readContents(file, packing, 0, context)) {
    pieces.push(piece);
    length += piece.length;
    // The fourth byte of the header is the number of dimensions. Until this byte arrives, the code assumes the maximum.
    const dimensions = length < 4 ? 255 : Buffer.concat(pieces)[3];
    if (length >= Math.min(MAX_HEADER_BYTES, 4 + 4 * (dimensions as number))) {
      break;
    }
  }
  return Buffer.concat(pieces);
}

/** Returns the range of records that begin in a split. A compressed file has only one split, which contains all records. */
function recordsOf({ from, to }: Split, { packing, header, records, recordBytes }: Layout): readonly [first: number, last: number] {
  if (packing !== 'none') {
    return [0, records];
  }
  const at = (offset: number) => Math.min(records, Math.max(0, Math.ceil((offset - header.bytes) / recordBytes)));
  return [at(from), at(to)];
}

interface Rows {
  readonly records: IdxRecord[];
  readonly bytes: number;
}

async function* readColumn(layout: Layout, first: number, last: number, context: ReadContext): AsyncGenerator<Rows, void> {
  const { file, packing, header, recordBytes } = layout;
  let at = first;
  let begun: Buffer[] = [];
  let begunBytes = 0;
  const start = header.bytes + first * recordBytes;
  if (first >= last) {
    return;
  }
  for await (const piece of readContents(file, packing, start, context)) {
    begun.push(piece);
    begunBytes += piece.length;
    const count = Math.min(last - at, Math.floor(begunBytes / recordBytes));
    if (count === 0) {
      continue;
    }
    const bytes = begun.length === 1 ? piece : Buffer.concat(begun, begunBytes);
    yield { records: Array.from({ length: count }, (_, row) => recordAt(layout, bytes, row * recordBytes)), bytes: count * recordBytes };
    at += count;
    if (at === last) {
      return;
    }
    begun = [bytes.subarray(count * recordBytes)];
    begunBytes -= count * recordBytes;
  }
  throw new TonyError('DATA_INVALID', `${file.uri} ends within record ${at}; its header declares ${layout.records} records`);
}

function recordAt({ header, values, shape }: Layout, bytes: Buffer, at: number): IdxRecord {
  const read = header.read(bytes, at, values);
  return shape.length === 0 ? (read[0] as number) : { values: read, shape };
}
