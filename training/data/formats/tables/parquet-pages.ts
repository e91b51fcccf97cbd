import { byteOf, checkDelta, levelWidth, type PageCursor, passRuns, readDelta, readInt32 } from './parquet-encodings.ts';
import { ThriftCursor } from './parquet-thrift.ts';

/*
 * Checks of a column chunk before the package hyparquet decodes it. A chunk is a sequence of pages, each of which has a header:
 *
 *   field 1 type, 2 uncompressed size, 3 compressed size
 *   field 5 data page: 1 number of values, 2 encoding
 *   field 7 dictionary page: 1 number of values
 *   field 8 data page, version 2: 1 number of values, 2 number of nulls, 4 encoding, 5 bytes of definition levels, 6 bytes of repetition
 *           levels, 7 whether the values are compressed
 *
 * A data page contains repetition levels, definition levels and values. In version 1, each sequence of levels begins with its length
 * (int32), and the page is compressed as a whole; in version 2, only the values are compressed. hyparquet allocates memory for all numbers
 * that a page declares, so a few bytes could exhaust the memory. The checks take linear time and bound what hyparquet allocates.
 */

/** The limit that all pages of a row group share. */
export interface GroupBudget {
  /** Number of bytes that may still be decoded. */
  bytes: number;
}

export interface LeafColumn {
  /** Physical type, for example INT32. */
  readonly type: string | undefined;
  readonly typeLength: number | undefined;
  readonly maxDefinitionLevel: number;
  readonly maxRepetitionLevel: number;
  readonly isCompressed: boolean;
  /** Whether the column is neither in a list nor in a struct. hyparquet then reads no pages beyond the last row. */
  readonly isFlat: boolean;
  /** Number of values, including nulls, that the footer declares. */
  readonly values: number;
}

/** Checks the uncompressed contents of a page. Throws an Error if they do not match the page's header. */
export type ContentCheck = (page: Uint8Array) => void;

const PAGE = { data: 0, dictionary: 2, dataV2: 3 } as const;
export const ENCODING = { plain: 0, rle: 3, delta: 5, deltaLength: 6, deltaBytes: 7, byteStreamSplit: 9 } as const;
/** PLAIN_DICTIONARY and RLE_DICTIONARY. */
export const DICTIONARY_ENCODINGS: readonly (number | undefined)[] = [2, 8];

export interface Page {
  /** The fields of the data page or dictionary page. */
  readonly fields: Readonly<Record<number, number>>;
  readonly values: number;
  readonly isDictionary: boolean;
  readonly isVersion2: boolean;
  readonly encoding: number | undefined;
  /** The contents as they are stored. */
  readonly contents: Uint8Array;
  readonly uncompressedBytes: number;
  readonly end: number;
}

/**
 * Reads and checks the headers of all pages in a chunk.
 * @throws Error if a header is damaged, or if the pages need more memory than the footer declares or the budget allows.
 */
export function pagesOf(chunk: Uint8Array, leaf: LeafColumn, budget: GroupBudget): Page[] {
  const pages: Page[] = [];
  let values = 0;
  // Like hyparquet, ignores a single byte at the end.
  for (let at = 0; at < chunk.length - 1 && !(leaf.isFlat && values >= leaf.values); ) {
    const page = readPage(chunk, at);
    at = page.end;
    charge(budget, page.uncompressedBytes);
    // A value takes at least a bit.
    if (page.isDictionary && page.values > 8 * page.uncompressedBytes) {
      throw new Error(`a dictionary declares ${page.values} values in ${page.uncompressedBytes} bytes`);
    }
    values += page.isDictionary ? 0 : page.values;
    if (values > leaf.values) {
      throw new Error(`the pages of a column declare ${values} values, but the footer only ${leaf.values}`);
    }
    pages.push(page);
  }
  return pages;
}

/**
 * Checks the contents of the uncompressed pages of a chunk.
 * @returns the checks for the contents of the compressed pages, in the order in which hyparquet decompresses them.
 * @throws Error if a page is damaged, or needs more memory than the budget allows.
 */
export function checkContents(pages: readonly Page[], leaf: LeafColumn, budget: GroupBudget): ContentCheck[] {
  const checks: ContentCheck[] = [];
  for (const page of pages) {
    if (page.isVersion2) {
      checkDataPageV2(page, leaf, budget, checks);
    } else {
      const check: ContentCheck = page.isDictionary ? () => {} : (contents) => checkDataPage(contents, page, leaf, budget);
      if (leaf.isCompressed) {
        checks.push(check);
      } else {
        check(page.contents);
      }
    }
  }
  return checks;
}

/** The number of the header's field that describes a page of each type. */
const FIELD_OF_TYPE: Readonly<Record<number, number>> = { [PAGE.data]: 5, [PAGE.dictionary]: 7, [PAGE.dataV2]: 8 };
const NUMBER_TYPES = [4, 5];
const [THRIFT_FALSE, THRIFT_STRUCT] = [2, 12] as const;

function readPage(chunk: Uint8Array, at: number): Page {
  const cursor = new ThriftCursor(chunk, at);
  const header: Record<number, number> = {};
  const inner: Record<number, Record<number, number>> = {};
  const numbers = (into: Record<number, number>) => (field: number, type: number) => {
    // As in hyparquet, the last of several values for a field counts.
    delete into[field];
    if (type === THRIFT_FALSE) {
      into[field] = 0;
    }
    if (!NUMBER_TYPES.includes(type)) {
      return false;
    }
    into[field] = cursor.integer();
    return true;
  };
  const visitNumber = numbers(header);
  cursor.struct((field, type) => {
    delete inner[field];
    delete header[field];
    if (type !== THRIFT_STRUCT) {
      return visitNumber(field, type);
    }
    inner[field] = {};
    cursor.struct(numbers(inner[field]));
    return true;
  });
  const fields = inner[FIELD_OF_TYPE[header[1] ?? -1] ?? -1];
  const values = fields?.[1] ?? -1;
  const [uncompressed = -1, compressed = -1] = [header[2], header[3]];
  const end = cursor.at + compressed;
  if (fields === undefined || values < 0 || uncompressed < 0 || compressed < 0 || end > chunk.length) {
    throw new Error('the header of a page is damaged');
  }
  const [isDictionary, isVersion2] = [header[1] === PAGE.dictionary, header[1] === PAGE.dataV2];
  const contents = chunk.subarray(cursor.at, end);
  return { fields, values, isDictionary, isVersion2, encoding: fields[isVersion2 ? 4 : 2], contents, uncompressedBytes: uncompressed, end };
}

function checkDataPage(contents: Uint8Array, page: Page, leaf: LeafColumn, budget: GroupBudget): void {
  const { repetition, definition, values } = partsOf(contents, leaf);
  if (repetition !== null) {
    passRuns(repetition, levelWidth(leaf.maxRepetitionLevel), page.values, null);
  }
  checkValues(values, page.encoding, countPresent(definition, page, leaf), leaf, budget);
}

/** The parts of a data page. Levels are null if the column has none. */
export interface PageParts {
  readonly repetition: PageCursor | null;
  readonly definition: PageCursor | null;
  readonly values: PageCursor;
}

/** Returns the parts of a page of version 1. */
export function partsOf(contents: Uint8Array, leaf: LeafColumn): PageParts {
  const values: PageCursor = { bytes: contents, at: 0 };
  const levels = (max: number): PageCursor | null => {
    if (max === 0) {
      return null;
    }
    const length = readInt32(values);
    const part = { bytes: contents, at: values.at };
    values.at += length;
    return part;
  };
  return { repetition: levels(leaf.maxRepetitionLevel), definition: levels(leaf.maxDefinitionLevel), values };
}

/**
 * Returns the parts of a page of version 2.
 * @param unpack decompresses values.
 */
export function partsOfV2(page: Page, leaf: LeafColumn, unpack: (values: Uint8Array, length: number) => Uint8Array): PageParts {
  const { repetitionBytes, levelBytes, isCompressed } = layoutOfV2(page, leaf);
  const { contents } = page;
  const stored = contents.subarray(levelBytes);
  return {
    repetition: leaf.maxRepetitionLevel === 0 ? null : { bytes: contents, at: 0 },
    definition: leaf.maxDefinitionLevel === 0 ? null : { bytes: contents, at: repetitionBytes },
    values: { bytes: isCompressed ? unpack(stored, page.uncompressedBytes - levelBytes) : stored, at: 0 },
  };
}

function layoutOfV2({ fields, values, contents, uncompressedBytes }: Page, leaf: LeafColumn) {
  // hyparquet would read at the position NaN, and never end, if one of these required fields were missing.
  const [nulls = -1, definitionBytes = -1, repetitionBytes = -1] = [fields[2], fields[5], fields[6]];
  const levelBytes = definitionBytes + repetitionBytes;
  const isCompressed = leaf.isCompressed && fields[7] !== 0;
  const areBytesSound = definitionBytes >= 0 && repetitionBytes >= 0 && levelBytes <= contents.length;
  // The declared size includes the levels.
  if (nulls < 0 || nulls > values || !areBytesSound || (isCompressed && uncompressedBytes < levelBytes)) {
    throw new Error('the header of a page is damaged');
  }
  return { nulls, repetitionBytes, levelBytes, isCompressed };
}

/** Returns how many values of a page are not missing. */
export function countPresent(definition: PageCursor | null, page: Page, leaf: LeafColumn): number {
  const max = leaf.maxDefinitionLevel;
  return definition === null ? page.values : passRuns(definition, levelWidth(max), page.values, max);
}

function checkDataPageV2(page: Page, leaf: LeafColumn, budget: GroupBudget, checks: ContentCheck[]): void {
  const { nulls, isCompressed } = layoutOfV2(page, leaf);
  const check: ContentCheck = (bytes) => checkValues({ bytes, at: 0 }, page.encoding, page.values - nulls, leaf, budget);
  const { repetition, definition, values } = partsOfV2(page, leaf, (stored) => stored);
  if (repetition !== null) {
    passRuns(repetition, levelWidth(leaf.maxRepetitionLevel), page.values, null);
  }
  if (definition !== null) {
    passRuns(definition, levelWidth(leaf.maxDefinitionLevel), page.values, null);
  }
  if (isCompressed) {
    checks.push(check);
  } else {
    check(values.bytes);
  }
}

function checkValues(cursor: PageCursor, encoding: number | undefined, count: number, leaf: LeafColumn, budget: GroupBudget): void {
  if (count === 0) {
    return;
  }
  if (DICTIONARY_ENCODINGS.includes(encoding) && leaf.type !== 'BOOLEAN') {
    const width = byteOf(cursor);
    if (width > 32) {
      throw new Error(`a page has indices of ${width} bits`);
    }
    if (width > 0) {
      passRuns(cursor, width, count, null);
    }
    return;
  }
  switch (encoding) {
    case ENCODING.plain:
    case ENCODING.byteStreamSplit:
      checkSize(cursor, count * minimumWidth(leaf));
      return;
    case ENCODING.rle:
      readInt32(cursor);
      passRuns(cursor, 1, count, null);
      return;
    case ENCODING.delta:
    case ENCODING.deltaLength:
      checkDelta(cursor);
      return;
    case ENCODING.deltaBytes:
      checkPrefixes(cursor, count, budget);
      return;
    default:
      throw new Error(`a page has the encoding ${encoding}`);
  }
}

/** Returns the number of bytes that a plain value takes at least. */
function minimumWidth({ type, typeLength }: LeafColumn): number {
  switch (type) {
    case 'BOOLEAN':
      return 1 / 8;
    case 'INT64':
    case 'DOUBLE':
      return 8;
    case 'INT96':
      return 12;
    case 'FIXED_LEN_BYTE_ARRAY':
      return typeLength ?? 0;
    default:
      return 4;
  }
}

/** @throws Error if fewer bytes follow the cursor. */
export function checkSize({ bytes, at }: PageCursor, needed: number): void {
  if (!(needed <= bytes.length - at)) {
    throw new Error(`a page declares values of ${needed} bytes, but contains ${bytes.length - at}`);
  }
}

/** Each value repeats a prefix of the previous value, so the values can need more memory than the page has bytes. */
function checkPrefixes(cursor: PageCursor, count: number, budget: GroupBudget): void {
  const prefixes = readDelta(cursor, count);
  const suffixes = readDelta(cursor, count);
  let previous = 0;
  for (let index = 0; index < count; index++) {
    const [prefix, suffix] = [prefixes[index] as number, suffixes[index] as number];
    if (prefix < 0 || prefix > previous || suffix < 0) {
      throw new Error('a value repeats more than the previous value');
    }
    previous = prefix + suffix;
    // The page contains the suffix itself.
    charge(budget, prefix);
  }
}

function charge(budget: GroupBudget, bytes: number): void {
  budget.bytes -= bytes;
  if (budget.bytes < 0) {
    throw new Error('its pages take more memory than maxGroupBytes allows');
  }
}
