import type { ColumnMetaData, CompressionCodec, Compressors, FileMetaData, ParquetParsers, RowGroup } from 'hyparquet';
import { messageOf, TonyError } from '../../../../platform/errors.ts';
import type { DataFile } from '../../reading/file-set.ts';
import type { ReadContext } from '../../reading/read-context.ts';
import type { FileFormat } from '../../reading/split.ts';
import { decoding, undecodable } from '../damage.ts';
import { readRange } from '../file-bytes.ts';
import { decodeUtf8 } from '../utf8.ts';
import type { ColumnValues } from './column-values.ts';
import { unpackBrotli, unpackGzip, unpackLz4, unpackSnappy, unpackZstandard } from './decompress.ts';
import { decodeNumbers, type Unpack } from './parquet-numbers.ts';
import { type ContentCheck, checkContents, type GroupBudget, type LeafColumn, type Page, pagesOf } from './parquet-pages.ts';
import { columnsOf, leavesOf, parquetKind, type SchemaNode, type StoredColumn, storedColumn } from './parquet-schema.ts';
import { ThriftCursor } from './parquet-thrift.ts';
import { placesIn, type RowPlace, type TableColumn, TablePart } from './table-part.ts';
import { columnConverter, selectColumns, type TableOptions } from './table-values.ts';
import { arrayOf, type ValueKind } from './value-kinds.ts';

/** hyparquet returns stored values; value-kinds.ts converts them. */
const PARSERS: Partial<ParquetParsers> = {
  stringFromBytes: (bytes) => decodeUtf8(bytes),
  // The nanoseconds since 1970 of a timestamp of the type INT96.
  timestampFromNanoseconds: (nanos) => nanos,
};

/** Distance between the chunks in the file that hyparquet sees, so large that it reads each chunk on its own. */
const CHUNK_DISTANCE = 2n ** 40n;
/** Maximum distance of two chunks of one column that are read at once. */
const MAX_GAP_BYTES = 64 * 1024;

interface ColumnRead {
  readonly values: ColumnValues;
  /** Number of bytes read from storage. */
  readonly bytes: number;
}

/** A chunk of a column, which contains the values of one leaf in a row group. */
interface Chunk {
  readonly metadata: ColumnMetaData;
  readonly leaf: LeafColumn;
  readonly bytes: ArrayBuffer;
  readonly pages: readonly Page[];
}

/**
 * Reads and decodes the chunks of one column in a row group. Checks them before memory is allocated.
 * @param metadata the metadata of the column's chunks, one for each leaf.
 * @throws Error if the chunks are damaged, or need more memory than the budget allows.
 */
async function readStoredColumn(
  file: DataFile,
  { stored, kind }: Column,
  metadata: readonly ColumnMetaData[],
  rows: number,
  budget: GroupBudget,
  context: ReadContext,
): Promise<ColumnRead> {
  const ranges = metadata.map(rangeOf);
  const buffers = await readRanges(file, ranges, context);
  const chunks = metadata.map((each, index): Chunk => {
    const [own, bytes] = [stored.leaves[index], buffers[index]];
    if (own === undefined || bytes === undefined) {
      throw new Error('a column lacks a chunk');
    }
    const leaf = { ...own, isCompressed: each.codec !== 'UNCOMPRESSED', values: Number(each.num_values) };
    return { metadata: each, leaf, bytes, pages: pagesOf(new Uint8Array(bytes), leaf, budget) };
  });
  const values = (await decodeColumn(chunks, kind, rows)) ?? (await decodeByHyparquet(chunks, stored, rows, budget));
  return { values, bytes: ranges.reduce((sum, [from, to]) => sum + to - from, 0) };
}

async function decodeColumn(chunks: readonly Chunk[], kind: ValueKind, rows: number): Promise<ColumnValues | null> {
  const [chunk] = chunks;
  const item = typeof kind === 'object' && 'list' in kind ? kind.list : kind;
  if (chunk === undefined || arrayOf(item) === null) {
    return null;
  }
  const { pages, leaf, metadata } = chunk;
  const unpack = (await unpackers())[metadata.codec] ?? null;
  return unpack === null && leaf.isCompressed ? null : decodeNumbers(pages, leaf, rows, unpack ?? ((data) => data));
}

async function decodeByHyparquet(chunks: readonly Chunk[], column: StoredColumn, rows: number, budget: GroupBudget): Promise<ColumnValues> {
  const checks = new Map<ArrayBufferLike, ContentCheck[]>(
    chunks.map(({ bytes, pages, leaf }) => [bytes, checkContents(pages, leaf, budget)]),
  );
  const slice = (from: number): ArrayBuffer => (chunks[Number(BigInt(from) / CHUNK_DISTANCE) - 1] as Chunk).bytes;
  const { parquetScan } = await import('hyparquet');
  const scan = await parquetScan({
    file: { byteLength: Number.MAX_SAFE_INTEGER, slice },
    metadata: metadataOf(column, chunks, rows),
    compressors: checkedUnpackers(await unpackers(), checks),
    parsers: PARSERS,
    utf8: false,
    geoparquet: false,
    useOffsetIndex: false,
  });
  const values = await scan.readColumn({ column: '0', rowStart: 0, rowEnd: rows });
  return { numbers: null, list: null, rows, hasNulls: true, get: (row) => values[row] };
}

function rangeOf({ dictionary_page_offset, data_page_offset, total_compressed_size }: ColumnMetaData): readonly [from: number, to: number] {
  const from = Number(dictionary_page_offset || data_page_offset);
  return [from, from + Number(total_compressed_size)];
}

/** Reads the ranges of one column. Reads neighbouring ranges together, because each read can take a round trip to the storage. */
async function readRanges(
  file: DataFile,
  ranges: readonly (readonly [from: number, to: number])[],
  context: ReadContext,
): Promise<ArrayBuffer[]> {
  const [first] = ranges;
  if (ranges.length === 1 && first !== undefined) {
    return [(await readRange(file, ...first, context)).buffer];
  }
  const from = Math.min(...ranges.map(([start]) => start));
  const to = Math.max(...ranges.map(([, end]) => end));
  const gaps = to - from - ranges.reduce((sum, [start, end]) => sum + end - start, 0);
  if (gaps > MAX_GAP_BYTES) {
    const buffers: ArrayBuffer[] = [];
    for (const range of ranges) {
      buffers.push((await readRange(file, ...range, context)).buffer);
    }
    return buffers;
  }
  const { buffer } = await readRange(file, from, to, context);
  return ranges.map(([start, end]) => buffer.slice(start - from, end - from));
}

function metadataOf({ schema, leaves }: StoredColumn, chunks: readonly Chunk[], rows: number): FileMetaData {
  const columns = chunks.map(({ metadata }, index): RowGroup['columns'][number] => {
    const leaf = leaves[index];
    return {
      file_offset: 0n,
      meta_data: {
        type: leaf?.type as ColumnMetaData['type'],
        encodings: [],
        path_in_schema: [...(leaf?.path ?? [])],
        codec: metadata.codec,
        num_values: metadata.num_values,
        total_uncompressed_size: metadata.total_uncompressed_size,
        total_compressed_size: metadata.total_compressed_size,
        data_page_offset: CHUNK_DISTANCE * BigInt(index + 1),
      },
    };
  });
  const group = { columns, num_rows: BigInt(rows), total_byte_size: 0n };
  return { version: 1, schema: [...schema], num_rows: BigInt(rows), row_groups: [group], metadata_length: 0 };
}

type Unpackers = Partial<Record<CompressionCodec, Unpack>>;

async function unpackers(): Promise<Unpackers> {
  const lz4 = await unpackLz4();
  // pagesOf has checked the declared length.
  const exact =
    (unpack: Unpack): Unpack =>
    (data, length) => {
      const unpacked = unpack(data, length);
      if (unpacked.length !== length) {
        throw new Error(`a page has ${unpacked.length} bytes instead of ${length}`);
      }
      return unpacked;
    };
  return {
    SNAPPY: exact(unpackSnappy),
    GZIP: exact(unpackGzip),
    ZSTD: exact(unpackZstandard),
    BROTLI: exact(unpackBrotli),
    LZ4: exact(lz4.hadoop),
    LZ4_RAW: exact(lz4.raw),
  };
}

/** Returns functions that check the contents of each page that they decompress. */
function checkedUnpackers(unpackers: Unpackers, checks: ReadonlyMap<ArrayBufferLike, ContentCheck[]>): Compressors {
  const checked =
    (unpack: Unpack): Unpack =>
    (data, length) => {
      const unpacked = unpack(data, length);
      const check = checks.get(data.buffer)?.shift();
      if (check === undefined) {
        throw new Error('a page has no header');
      }
      check(unpacked);
      return unpacked;
    };
  return Object.fromEntries(Object.entries(unpackers).map(([codec, unpack]) => [codec, checked(unpack)]));
}

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
/** Memory in bytes that each value takes, and that it needs in addition while its column is decoded. */
const VALUE_BYTES = 8;
const DECODING_BYTES = 16;

/**
 * Creates the format for Parquet files. Reads one row group at a time, and only the selected columns. A row group belongs to the split that
 * contains its first byte. Positions are [row group, row].
 */
export function parquetFormat(options: ParquetOptions): FileFormat<RowPlace> {
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
        const { part, bytes } = await readGroup(group);
        const start = group.index === firstGroup ? firstRow : 0;
        for (let at = start; at < part.size; at += ROWS_PER_CHUNK) {
          const items = placesIn(part, at, Math.min(part.size, at + ROWS_PER_CHUNK));
          yield { items, from: [group.index, at], bytes: (items.length / part.size) * bytes };
        }
      }
    },
  };
}

interface Group {
  readonly index: number;
  readonly offset: number;
  readonly firstRow: number;
  readonly rows: number;
  /** One chunk for each physical column, in the order of the schema. */
  readonly chunks: readonly ColumnMetaData[];
}

interface GroupRows {
  readonly part: TablePart;
  /** Number of bytes read from storage. */
  readonly bytes: number;
}

interface OpenedParquet {
  readonly groups: readonly Group[];
  readGroup(group: Group): Promise<GroupRows>;
}

/** A selected column. */
interface Column extends TableColumn {
  readonly stored: StoredColumn;
  /** Index of the column's first chunk in a row group. */
  readonly firstChunk: number;
}

async function openParquet(file: DataFile, options: ParquetOptions, context: ReadContext): Promise<OpenedParquet> {
  const { maxGroupBytes = MAX_GROUP_BYTES } = options;
  const metadata = await readMetadata(file, context);
  const damaged = `${file.uri}: its footer is damaged`;
  const nodes = decoding(damaged, () => columnsOf(metadata.schema));
  const columns = selectedColumns(nodes, options, file.uri);
  const leaves = nodes.reduce((sum, node) => sum + leavesOf(node), 0);
  const groups = decoding(damaged, () => groupsOf(metadata.row_groups, leaves, file));
  const readGroup = async (group: Group): Promise<GroupRows> => {
    checkSize(group, columns, maxGroupBytes, file);
    const reads = await readColumns(file, columns, group, { bytes: maxGroupBytes }, context);
    const order = Uint32Array.from({ length: group.rows }, (_, row) => row);
    const values = reads.map((read) => read.values);
    const part = new TablePart(columns, values, { order, whereOf: (row) => `${file.uri}, row ${group.firstRow + row}` });
    return { part, bytes: reads.reduce((sum, { bytes }) => sum + bytes, 0) };
  };
  return { groups, readGroup };
}

function selectedColumns(nodes: readonly SchemaNode[], options: ParquetOptions, uri: string): readonly Column[] {
  let chunks = 0;
  const all = nodes.map((node) => {
    const firstChunk = chunks;
    chunks += leavesOf(node);
    return { name: node.element.name, node, firstChunk };
  });
  return selectColumns(all, options, uri).map(({ name, node, firstChunk }) => {
    const kind = parquetKind(node, `${uri}: column ${name}`);
    return { name, kind, convert: columnConverter({ name, kind }, options, uri), stored: storedColumn(node), firstChunk };
  });
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
    new ThriftCursor(footer.subarray(0, -8), footer.length - length).struct();
    return parquetMetadata(footer, { geoparquet: false });
  } catch (error) {
    throw fail(`its footer is damaged (${messageOf(error)})`, error);
  }
}

/** @throws Error if the footer declares other columns, or more data, than the file can contain. */
function groupsOf(rowGroups: readonly RowGroup[], leaves: number, file: DataFile): readonly Group[] {
  let firstRow = 0;
  let stored = 0;
  return rowGroups.map(({ columns, num_rows }, index) => {
    const rows = Number(num_rows);
    const chunks = columns.map(({ meta_data, file_path }) => {
      if (meta_data === undefined || file_path !== undefined) {
        throw new Error(meta_data === undefined ? 'a column is encrypted' : 'its columns are in other files');
      }
      return meta_data;
    });
    stored += chunks.reduce((sum, { total_compressed_size }) => sum + Number(total_compressed_size), 0);
    const isSound = chunks.every((chunk) => [chunk.num_values, chunk.total_compressed_size].every((size) => size >= 0n));
    if (chunks.length !== leaves || !(rows >= 0) || !isSound || !(stored <= file.size)) {
      throw new Error(`row group ${index} does not match the file`);
    }
    const group = { index, offset: offsetOf(chunks), firstRow, rows, chunks };
    firstRow += rows;
    return group;
  });
}

function offsetOf(chunks: readonly ColumnMetaData[]): number {
  const offsets = chunks.flatMap(({ data_page_offset, dictionary_page_offset }) =>
    [data_page_offset, dictionary_page_offset].flatMap((offset) => (offset === undefined || offset === 0n ? [] : Number(offset))),
  );
  return offsets.reduce((least, offset) => Math.min(least, offset), Number.POSITIVE_INFINITY);
}

function chunksOf({ chunks }: Group, { firstChunk, stored }: Column): readonly ColumnMetaData[] {
  return chunks.slice(firstChunk, firstChunk + stored.leaves.length);
}

/** Rejects a row group that needs too much memory, because a damaged or malicious footer can declare any size. */
function checkSize(group: Group, columns: readonly Column[], maxBytes: number, file: DataFile): void {
  const chunks = columns.flatMap((column) => chunksOf(group, column));
  const kept = chunks.reduce(
    (sum, { total_uncompressed_size, num_values }) => sum + Math.max(Number(total_uncompressed_size), VALUE_BYTES * Number(num_values)),
    VALUE_BYTES * group.rows,
  );
  const values = chunks.map(({ num_values }) => Number(num_values)).sort((a, b) => b - a);
  const decoded = values.slice(0, CONCURRENT_COLUMNS).reduce((sum, count) => sum + DECODING_BYTES * count, 0);
  const bytes = kept + decoded;
  if (bytes > maxBytes) {
    throw new TonyError(
      'DATA_INVALID',
      `${file.uri}: row group ${group.index} takes ${bytes} bytes in memory; the maximum is ${maxBytes} (maxGroupBytes)`,
      { hint: 'Select fewer columns, write smaller row groups, or raise maxGroupBytes.' },
    );
  }
}

async function readColumns(
  file: DataFile,
  columns: readonly Column[],
  group: Group,
  budget: GroupBudget,
  context: ReadContext,
): Promise<readonly ColumnRead[]> {
  const reads: ColumnRead[] = [];
  for (let at = 0; at < columns.length && group.rows > 0; at += CONCURRENT_COLUMNS) {
    const some = columns.slice(at, at + CONCURRENT_COLUMNS);
    const read = some.map((column) => readStoredColumn(file, column, chunksOf(group, column), group.rows, budget, context));
    // If one read fails, the code still waits for the others, because nothing would handle their errors later.
    for (const [index, result] of (await Promise.allSettled(read)).entries()) {
      if (result.status === 'rejected') {
        context.signal.throwIfAborted();
        throw undecodable(result.reason, `${file.uri}: row group ${group.index}, column ${some[index]?.name} cannot be decoded`);
      }
      reads.push(result.value);
    }
  }
  return reads;
}
