import { type ColumnValues, listValues, numberValues } from './column-values.ts';
import { byteOf, levelWidth, type PageCursor, readRuns } from './parquet-encodings.ts';
import {
  checkSize,
  countPresent,
  DICTIONARY_ENCODINGS,
  ENCODING,
  type LeafColumn,
  type Page,
  type PageParts,
  partsOf,
  partsOfV2,
} from './parquet-pages.ts';

/*
 * Decodes columns of numbers, and of lists of numbers, into typed arrays. hyparquet stores each level and each number as a JavaScript value,
 * which takes ten times as long. It decodes all other columns, and those with missing values or rare encodings.
 */

const ARRAYS = { INT32: Int32Array, INT64: BigInt64Array, FLOAT: Float32Array, DOUBLE: Float64Array } as const;
type Numbers = InstanceType<(typeof ARRAYS)[keyof typeof ARRAYS]>;

/** Decompresses a page or its values. The result has the declared length. */
export type Unpack = (data: Uint8Array, length: number) => Uint8Array;

/**
 * Decodes the pages of a column whose values are numbers or lists of numbers.
 * @returns null if hyparquet must decode the column.
 * @throws Error if a page is damaged.
 */
export function decodeNumbers(pages: readonly Page[], leaf: LeafColumn, rows: number, unpack: Unpack): ColumnValues | null {
  const Values = Object.hasOwn(ARRAYS, leaf.type ?? '') ? ARRAYS[leaf.type as keyof typeof ARRAYS] : null;
  if (Values === null || leaf.maxRepetitionLevel > 1 || !pages.every(isDecodable)) {
    return null;
  }
  const unpackPage: Unpack = leaf.isCompressed ? unpack : (data) => data;
  const total = pages.reduce((sum, { isDictionary, values }) => sum + (isDictionary ? 0 : values), 0);
  if (total !== leaf.values) {
    throw new Error(`the pages of a column declare ${total} values, but the footer ${leaf.values}`);
  }
  const numbers = new Values(total);
  const starts = leaf.maxRepetitionLevel === 1 ? new RowStarts(rows) : null;
  let dictionary = new Values(0);
  let count = 0;
  for (const page of pages) {
    if (page.isDictionary) {
      const contents = { bytes: unpackPage(page.contents, page.uncompressedBytes), at: 0 };
      checkSize(contents, page.values * Values.BYTES_PER_ELEMENT);
      dictionary = new Values(page.values);
      readPlain(contents, dictionary);
      continue;
    }
    const parts = page.isVersion2 ? partsOfV2(page, leaf, unpack) : partsOf(unpackPage(page.contents, page.uncompressedBytes), leaf);
    if (countPresent(parts.definition, page, leaf) < page.values) {
      return null;
    }
    starts?.read(parts, page.values, count);
    const values = numbers.subarray(count, count + page.values) as Numbers;
    if (page.encoding === ENCODING.plain) {
      readPlain(parts.values, values);
    } else {
      readFromDictionary(parts.values, dictionary, values);
    }
    count += page.values;
  }
  const found = starts?.count ?? count;
  if (found !== rows) {
    throw new Error(`a column has ${found} rows instead of ${rows}`);
  }
  const items = numberValues(numbers, null);
  return starts === null ? items : listValues(starts.offsets(count), rows, items, null);
}

function isDecodable({ isDictionary, encoding }: Page): boolean {
  return isDictionary || encoding === ENCODING.plain || DICTIONARY_ENCODINGS.includes(encoding);
}

function readPlain(cursor: PageCursor, values: Numbers): void {
  checkSize(cursor, values.byteLength);
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  bytes.set(cursor.bytes.subarray(cursor.at, cursor.at + bytes.length));
}

function readFromDictionary(cursor: PageCursor, dictionary: Numbers, values: Numbers): void {
  if (values.length === 0) {
    return;
  }
  const width = byteOf(cursor);
  if (width > 32) {
    throw new Error(`a page has indices of ${width} bits`);
  }
  // The indices lie at the end of the memory that the values take, and each value replaces only indices that have been read.
  const end = values.byteOffset + values.byteLength;
  const indices = new Uint32Array(values.buffer, end - values.length * Uint32Array.BYTES_PER_ELEMENT, values.length);
  if (width > 0) {
    readRuns(cursor, width, indices);
  }
  for (let at = 0; at < indices.length; at++) {
    const index = indices[at] as number;
    if (index >= dictionary.length) {
      throw new Error(`a page refers to value ${index} of a dictionary with ${dictionary.length} values`);
    }
    values[at] = dictionary[index] as number;
  }
}

/** The places at which the lists of a column begin. A list begins at each repetition level 0. */
class RowStarts {
  readonly #starts: Float64Array;
  #count = 0;
  /** The levels of the page that is being read. */
  #levels = new Uint8Array(0);

  constructor(rows: number) {
    this.#starts = new Float64Array(rows + 1);
  }

  get count(): number {
    return this.#count;
  }

  /** @param first the number of values before the page. */
  read({ repetition }: PageParts, values: number, first: number): void {
    if (this.#levels.length < values) {
      this.#levels = new Uint8Array(values);
    }
    const levels = this.#levels.subarray(0, values);
    readRuns(repetition as PageCursor, levelWidth(1), levels);
    if (first === 0 && values > 0 && levels[0] !== 0) {
      throw new Error('a column begins within a list');
    }
    for (let at = levels.indexOf(0); at !== -1; at = levels.indexOf(0, at + 1)) {
      this.#starts[this.#count++] = first + at;
    }
  }

  offsets(values: number): Float64Array {
    this.#starts[this.#count] = values;
    return this.#starts;
  }
}
