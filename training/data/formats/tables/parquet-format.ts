import type { Compressors, FileMetaData, ParquetParsers, RowGroup } from 'hyparquet';
import { messageOf, TonyError } from '../../../../platform/errors.ts';
import type { DataFile } from '../../reading/file-set.ts';
import type { ReadContext } from '../../reading/read-context.ts';
import type { FileFormat } from '../../reading/split.ts';
import { readRange } from '../file-bytes.ts';
import { unpackBrotli, unpackGzip, unpackSnappy, unpackZstandard } from './decompress.ts';
import { parquetKind } from './parquet-schema.ts';
import { selectColumns, type TableOptions, type TableRow, valueConverter } from './table-values.ts';

export interface ParquetOptions extends TableOptions {
  /**
   * Maximum uncompressed size in bytes of the selected columns in one row group, which must fit in memory. Checked before memory is
   * allocated. Default: 1 GiB.
   */
  readonly maxGroupBytes?: number;
}

const MAX_GROUP_BYTES = 1024 * 1024 * 1024;
const MAX_FOOTER_BYTES = 64 * 1024 * 1024;
const FIRST_FOOTER_BYTES = 64 * 1024;
const ROWS_PER_CHUNK = 1024;
const CONCURRENT_COLUMNS = 8;
/** Minimum memory in bytes that a value needs while it is decoded. */
const VALUE_BYTES = 8;

/** Dates become days since 1970, and timestamps milliseconds since 1970. */
const PARSERS: Partial<ParquetParsers> = {
  dateFromDays: (days) => days,
  timestampFromMilliseconds: (millis) => Number(millis),
  timestampFromMicroseconds: (micros) => Number(micros) / 1000,
  timestampFromNanoseconds: (nanos) => Number(nanos) / 1_000_000,
  jsonFromBytes: (bytes) => bytes && Buffer.from(bytes).toString('utf8'),
};

/**
 * Creates the format for Parquet files. Reads one row group at a time, and only the selected columns. A row group belongs to the split that
 * contains its first byte. Positions are [row group, row].
 */
export function parquetFormat(options: ParquetOptions): FileFormat<TableRow> {
  return {
    isSplittable: () => true,
    async borders(file, context) {
      return (await openParquet(file, options, context)).groups.map(({ offset }) => offset);
    },
    async *read({ file, from, to }, resumeAt, context) {
      const { groups, readGroup } = await openParquet(file, options, context);
      const [firstGroup, firstRow] = (resumeAt ?? [0, 0]) as [number, number];
      for (const group of groups) {
        if (group.offset < from || group.offset >= to || group.index < firstGroup) {
          continue;
        }
        const rows = await readGroup(group);
        const start = group.index === firstGroup ? firstRow : 0;
        for (let at = start; at < rows.count; at += ROWS_PER_CHUNK) {
          const end = Math.min(rows.count, at + ROWS_PER_CHUNK);
          yield { items: rows.slice(at, end), from: [group.index, at], bytes: ((end - at) / rows.count) * rows.bytes };
        }
      }
    },
  };
}

interface Group {
  readonly index: number;
  readonly offset: number;
  readonly firstRow: number;
  readonly rowGroup: RowGroup;
}

interface Rows {
  readonly count: number;
  /** Number of bytes read from storage. */
  readonly bytes: number;
  slice(from: number, to: number): TableRow[];
}

interface OpenedParquet {
  readonly groups: readonly Group[];
  readGroup(group: Group): Promise<Rows>;
}

async function openParquet(file: DataFile, options: ParquetOptions, context: ReadContext): Promise<OpenedParquet> {
  const { parquetSchema } = await import('hyparquet');
  const metadata = await readMetadata(file, context);
  const schema = parquetSchema(metadata).children.map((tree) => ({ name: tree.element.name, tree }));
  const columns = selectColumns(schema, options, file.uri).map(({ name, tree }) => ({
    name,
    convert: valueConverter({ name, kind: parquetKind(tree, `${file.uri}: column ${name}`) }, options),
  }));
  const groups: Group[] = [];
  let firstRow = 0;
  for (const [index, rowGroup] of metadata.row_groups.entries()) {
    groups.push({ index, offset: offsetOf(rowGroup), firstRow, rowGroup });
    firstRow += Number(rowGroup.num_rows);
  }
  const readGroup = async (group: Group): Promise<Rows> => {
    const names = columns.map(({ name }) => name);
    checkSize(group, names, options.maxGroupBytes ?? MAX_GROUP_BYTES, file);
    const { values, bytes } = await readColumns(file, metadata, group, names, options, context);
    return {
      count: Number(group.rowGroup.num_rows),
      bytes,
      slice: (from, to) => Array.from({ length: to - from }, (_, index) => rowAt(columns, values, from + index, group, file)),
    };
  };
  return { groups, readGroup };
}

interface Converter {
  readonly name: string;
  readonly convert: ReturnType<typeof valueConverter>;
}

function rowAt(columns: readonly Converter[], values: readonly ArrayLike<unknown>[], at: number, group: Group, file: DataFile): TableRow {
  try {
    return Object.fromEntries(columns.map(({ name, convert }, index) => [name, convert(values[index]?.[at])]));
  } catch (error) {
    throw new TonyError('DATA_INVALID', `${file.uri}, row ${group.firstRow + at}: ${messageOf(error)}`, { cause: error });
  }
}

async function readMetadata(file: DataFile, context: ReadContext): Promise<FileMetaData> {
  const { parquetMetadata } = await import('hyparquet');
  const fail = (what: string, cause?: unknown) => new TonyError('DATA_INVALID', `${file.uri} is not a Parquet file: ${what}`, { cause });
  // The file ends with the footer, the footer's length (4 bytes) and the magic bytes.
  let footer = await readRange(file, Math.max(0, file.size - FIRST_FOOTER_BYTES), file.size, context);
  const end = Buffer.from(footer.buffer).subarray(-8);
  if (end.length < 8 || end.subarray(4).toString('latin1') !== 'PAR1') {
    throw fail(end.subarray(4).toString('latin1') === 'PARE' ? 'its footer is encrypted' : 'it does not end with PAR1');
  }
  const length = end.readUInt32LE() + 8;
  if (length > MAX_FOOTER_BYTES || length > file.size) {
    throw fail(`its footer declares ${length} bytes`);
  }
  if (length > footer.length) {
    footer = await readRange(file, file.size - length, file.size, context);
  }
  try {
    return parquetMetadata(footer, { parsers: PARSERS, geoparquet: false });
  } catch (error) {
    throw fail(`its footer is damaged (${messageOf(error)})`, error);
  }
}

function offsetOf({ columns }: RowGroup): number {
  const offsets = columns.flatMap(({ meta_data }) => {
    const { data_page_offset, dictionary_page_offset } = meta_data ?? {};
    return [data_page_offset, dictionary_page_offset].flatMap((offset) => (offset === undefined || offset === 0n ? [] : Number(offset)));
  });
  return Math.min(...offsets);
}

/** Rejects a row group that needs too much memory, because a damaged or malicious footer can declare any size. */
function checkSize({ index, rowGroup }: Group, names: readonly string[], maxBytes: number, file: DataFile): void {
  const chunks = rowGroup.columns.flatMap(({ meta_data }) =>
    meta_data && names.includes(meta_data.path_in_schema[0] ?? '') ? meta_data : [],
  );
  const bytes = chunks.reduce(
    (sum, { total_uncompressed_size, num_values }) => sum + Math.max(Number(total_uncompressed_size), VALUE_BYTES * Number(num_values)),
    VALUE_BYTES * Number(rowGroup.num_rows),
  );
  if (bytes > maxBytes) {
    throw new TonyError('DATA_INVALID', `${file.uri}: row group ${index} takes ${bytes} bytes in memory; the maximum is ${maxBytes}`, {
      hint: 'Select fewer columns, write smaller row groups, or raise maxGroupBytes.',
    });
  }
}

async function readColumns(
  file: DataFile,
  metadata: FileMetaData,
  { index, firstRow, rowGroup }: Group,
  names: readonly string[],
  { maxGroupBytes = MAX_GROUP_BYTES }: ParquetOptions,
  context: ReadContext,
): Promise<{ readonly values: readonly ArrayLike<unknown>[]; readonly bytes: number }> {
  const { parquetScan } = await import('hyparquet');
  let bytes = 0;
  const reads: Promise<ArrayBuffer>[] = [];
  const slice = (from: number, to = file.size): Promise<ArrayBuffer> => {
    const read = readRange(file, from, to, context).then((part) => {
      bytes += part.length;
      return part.buffer;
    });
    reads.push(read);
    // hyparquet starts all reads of a column, but waits for none of the others once one has failed.
    read.catch(() => {});
    return read;
  };
  const rows = { rowStart: firstRow, rowEnd: firstRow + Number(rowGroup.num_rows) };
  try {
    const scan = await parquetScan({
      file: { byteLength: file.size, slice },
      metadata,
      columns: [...names],
      ...rows,
      compressors: await compressors(maxGroupBytes),
      parsers: PARSERS,
      utf8: false,
      geoparquet: false,
      useOffsetIndex: false,
    });
    const values: ArrayLike<unknown>[] = [];
    for (let at = 0; at < names.length; at += CONCURRENT_COLUMNS) {
      const some = names.slice(at, at + CONCURRENT_COLUMNS);
      // If one read fails, the code still waits for the others, because nothing would handle their errors later.
      const read = await Promise.allSettled(some.map((column) => scan.readColumn({ column, ...rows })));
      for (const result of read) {
        if (result.status === 'rejected') {
          throw result.reason;
        }
        values.push(result.value);
      }
    }
    return { values, bytes };
  } catch (error) {
    await Promise.allSettled(reads);
    context.signal.throwIfAborted();
    if (error instanceof TonyError) {
      throw error;
    }
    throw new TonyError('DATA_INVALID', `${file.uri}: row group ${index} cannot be decoded: ${messageOf(error)}`, { cause: error });
  }
}

async function compressors(maxBytes: number): Promise<Compressors> {
  const { decompressLz4, decompressLz4Raw } = await import('hyparquet-compressors');
  const bounded =
    (unpack: (data: Uint8Array, length: number) => Uint8Array) =>
    (data: Uint8Array, length: number): Uint8Array => {
      if (length > maxBytes) {
        throw new Error(`a page declares ${length} bytes`);
      }
      const unpacked = unpack(data, length);
      if (unpacked.length !== length) {
        throw new Error(`a page has ${unpacked.length} bytes instead of ${length}`);
      }
      return unpacked;
    };
  return {
    SNAPPY: bounded(unpackSnappy),
    GZIP: bounded(unpackGzip),
    ZSTD: bounded(unpackZstandard),
    BROTLI: bounded(unpackBrotli),
    LZ4: bounded(decompressLz4),
    LZ4_RAW: bounded(decompressLz4Raw),
  };
}
