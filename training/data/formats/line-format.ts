import { TonyError } from '../../../platform/errors.ts';
import type { DataFile } from '../reading/file-set.ts';
import type { ReadContext } from '../reading/read-context.ts';
import type { FileFormat, Split } from '../reading/split.ts';
import { damageHandler, decoding, skipUnreadable, undecodable } from './damage.ts';
import { compressionOf, readContents } from './file-bytes.ts';
import { MAX_RECORD_BYTES, type RecordOptions } from './tfrecord-format.ts';
import { decodeUtf8 } from './utf8.ts';

export interface Line {
  /** Offset of the line's first byte in the file's uncompressed contents. */
  readonly offset: number;
  readonly bytes: Buffer;
}

interface LineSplitterOptions {
  readonly where: string;
  readonly offset: number;
  readonly maxRecordBytes: number;
  /**
   * The bytes between values, if quoted values may contain line breaks (RFC 4180). A quote opens a quoted value only at the beginning of a
   * value, as in `splitFields`, and two quotes within it stand for one. Without this option, each line break ends a line.
   */
  readonly delimiter?: Buffer;
}

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const QUOTE = 0x22;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');

/** Splits incoming bytes into lines that end with LF or CRLF. The last line need not end with a line break. */
export class LineSplitter {
  readonly #options: LineSplitterOptions;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #isWithinQuotes = false;
  /** True if the last byte is a quote within quotes, which closes them unless another quote follows. */
  #isAfterQuote = false;
  /** The last bytes of the current line, to find a delimiter or byte order mark before a quote. */
  #tail: Buffer = Buffer.alloc(0);
  #offset: number;
  /** The position of a quote in the bytes of `push`, before which there is none. */
  #nextQuote = -1;

  constructor(options: LineSplitterOptions) {
    this.#options = options;
    this.#offset = options.offset;
  }

  /** Offset of the first line that `push` has not returned yet. */
  get offset(): number {
    return this.#offset;
  }

  /**
   * Returns the lines completed by these bytes.
   * @throws TonyError DATA_INVALID if a line exceeds the maximum length.
   */
  push(bytes: Buffer): Line[] {
    const lines: Line[] = [];
    let start = 0;
    this.#nextQuote = -1;
    for (let end = this.#endOfLine(bytes, 0); end !== -1; end = this.#endOfLine(bytes, start)) {
      lines.push(this.#line(bytes.subarray(start, end), 1));
      start = end + 1;
    }
    if (start < bytes.length) {
      this.#pending.push(bytes.subarray(start));
      this.#pendingBytes += bytes.length - start;
      this.#tail = Buffer.concat([this.#tail, bytes.subarray(Math.max(start, bytes.length - 4))]).subarray(-4);
      this.#refuse(this.#pendingBytes);
    }
    return lines;
  }

  /** Returns the last line if it does not end with a line break. */
  finish(): Line[] {
    return this.#pendingBytes === 0 ? [] : [this.#line(Buffer.alloc(0), 0)];
  }

  /** Returns the position of the next line break outside quotes, or -1. The current line continues at `start`. */
  #endOfLine(bytes: Buffer, start: number): number {
    const { delimiter } = this.#options;
    const end = bytes.indexOf(NEWLINE, start);
    if (delimiter === undefined) {
      return end;
    }
    if (this.#nextQuote < start) {
      const quote = bytes.indexOf(QUOTE, start);
      this.#nextQuote = quote === -1 ? Number.POSITIVE_INFINITY : quote;
    }
    const hasNoQuote = this.#nextQuote > (end === -1 ? bytes.length : end);
    return hasNoQuote && !this.#isWithinQuotes ? end : this.#passQuotes(bytes, start, delimiter);
  }

  #passQuotes(bytes: Buffer, start: number, delimiter: Buffer): number {
    let [isWithin, isAfter] = [this.#isWithinQuotes, this.#isAfterQuote];
    let at = start;
    for (; at < bytes.length; at++) {
      const isQuote = bytes[at] === QUOTE;
      if (isWithin && !isAfter) {
        isAfter = isQuote;
        continue;
      }
      if (isWithin && isQuote) {
        isAfter = false;
        continue;
      }
      isWithin = isQuote && this.#opensValue(bytes, start, at, delimiter);
      isAfter = false;
      if (bytes[at] === NEWLINE) {
        break;
      }
    }
    this.#isWithinQuotes = isWithin;
    this.#isAfterQuote = isAfter;
    return at === bytes.length ? -1 : at;
  }

  /** Returns true if the quote at `at` is the first byte of a value. */
  #opensValue(bytes: Buffer, start: number, at: number, delimiter: Buffer): boolean {
    if (at - start > BYTE_ORDER_MARK.length && delimiter.length === 1) {
      return bytes[at - 1] === delimiter[0];
    }
    const length = this.#pendingBytes + at - start;
    if (length === 0) {
      return true;
    }
    const before = Buffer.concat([this.#tail, bytes.subarray(Math.max(start, at - 4), at)]).subarray(-4);
    const isAfterMark = this.#offset === 0 && length === BYTE_ORDER_MARK.length && before.equals(BYTE_ORDER_MARK);
    return isAfterMark || before.subarray(-delimiter.length).equals(delimiter);
  }

  #line(tail: Buffer, breakBytes: number): Line {
    const whole = this.#pendingBytes === 0 ? tail : Buffer.concat([...this.#pending, tail]);
    this.#refuse(whole.length);
    const offset = this.#offset;
    this.#offset += whole.length + breakBytes;
    this.#pending = [];
    this.#pendingBytes = 0;
    this.#tail = Buffer.alloc(0);
    this.#isWithinQuotes = false;
    this.#isAfterQuote = false;
    const hasReturn = breakBytes === 1 && whole[whole.length - 1] === RETURN;
    return { offset, bytes: hasReturn ? whole.subarray(0, -1) : whole };
  }

  #refuse(length: number): void {
    const { where, maxRecordBytes } = this.#options;
    if (length > maxRecordBytes) {
      const quotes = this.#isWithinQuotes ? '; a quote is not closed' : '';
      throw new TonyError('DATA_INVALID', `${where}, byte ${this.#offset}: a line is longer than ${maxRecordBytes} bytes${quotes}`);
    }
  }
}

/** How bytes encode text. The encodings have the same bytes for ASCII characters, so lines and delimiters are found before decoding. */
type TextEncoding = 'utf-8' | 'latin1';

/** Returns a function that decodes bytes. With UTF-8, it throws an Error for bytes that are not UTF-8. */
export function textDecoder(encoding: TextEncoding): (bytes: Buffer) => string {
  return encoding === 'latin1' ? (bytes) => bytes.toString('latin1') : decodeUtf8;
}

function delimiterBytes(delimiter: string, encoding: TextEncoding): Buffer {
  return Buffer.from(delimiter, encoding === 'utf-8' ? 'utf8' : 'latin1');
}

/** First bytes of compressed files whose content the text formats cannot read. */
const COMPRESSED: readonly (readonly [name: string, start: Buffer])[] = [
  ['bzip2', Buffer.from('BZh')],
  ['Zstandard', Buffer.of(0x28, 0xb5, 0x2f, 0xfd)],
  ['xz', Buffer.of(0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00)],
  ['LZ4', Buffer.of(0x04, 0x22, 0x4d, 0x18)],
  ['zip', Buffer.of(0x50, 0x4b, 0x03, 0x04)],
];
/** A bzip2 file has these bytes after its first 4. The first 4 alone could be text. */
const BZIP2_BLOCK = Buffer.from('314159265359', 'hex');

/**
 * Recognises the beginning of files that contain no text in one of the encodings, because parts of them may look like text.
 * @throws TonyError DATA_INVALID if these are the first bytes of such a file.
 */
function refuseForeignText(uri: string, bytes: Buffer): void {
  const [first, second] = bytes;
  const isUtf16 = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff) || (first === 0) !== (second === 0);
  if (isUtf16 && second !== undefined) {
    throw new TonyError('DATA_INVALID', `${uri}, byte 0: the text is not UTF-8, but UTF-16`, {
      hint: 'Convert the file: `iconv -f UTF-16 -t UTF-8`.',
    });
  }
  if (first === 0x1f && second === 0x8b) {
    throw new TonyError('DATA_INVALID', `${uri}, byte 0: the file is compressed with gzip, but its name does not end with .gz`, {
      hint: "Rename the file, or set compression: 'gzip'.",
    });
  }
  const [name] = COMPRESSED.find(([, start]) => bytes.subarray(0, start.length).equals(start)) ?? [];
  if (name !== undefined && (name !== 'bzip2' || bytes.subarray(4, 4 + BZIP2_BLOCK.length).equals(BZIP2_BLOCK))) {
    throw new TonyError('DATA_INVALID', `${uri}, byte 0: the file is compressed with ${name}, which tony-ts cannot read`, {
      hint: 'Decompress the file, or compress it with gzip.',
    });
  }
}

export interface TextOptions extends RecordOptions {
  /** How the files encode text. A line with other bytes is damaged. Default: UTF-8. */
  readonly encoding?: TextEncoding;
}

export interface LineRecordOptions extends TextOptions {
  /** The delimiter of values, if quoted values may contain line breaks. Such files cannot be split. */
  readonly quotedDelimiter?: string;
  readonly isSplittable?: boolean;
}

/** Parses the lines of a file. */
export interface LineParser<T> {
  /**
   * Parses a line. Throws if the line is damaged.
   * @param decode returns the text of the line.
   */
  parse(line: Line, decode: () => string): void;
  /** Returns the records of the lines since the last call. */
  take(): readonly T[];
}

/** Returns a parser that parses each line on its own. `parse` returns undefined for a line without a record. */
export function eachLine<T>(parse: (line: string) => T | undefined): LineParser<T> {
  let records: T[] = [];
  return {
    parse: (_, decode) => {
      const record = parse(decode());
      if (record !== undefined) {
        records.push(record);
      }
    },
    take: () => {
      const taken = records;
      records = [];
      return taken;
    },
  };
}

/**
 * Creates the format for files with one record per line. As is usual in Hadoop, a line belongs to the split that contains its first byte. A
 * reader starts one byte before its split and skips everything up to the first line break. Positions are line offsets.
 * @param parserFor creates the parser for a file's lines. Returns null if the file must be skipped, and reports the damage itself.
 */
export function lineFormat<T>(
  options: LineRecordOptions,
  parserFor: (file: DataFile, context: ReadContext, onDamage: (damage: TonyError) => void) => Promise<LineParser<T> | null>,
): FileFormat<T> {
  return {
    isSplittable: (file) => (options.isSplittable ?? true) && compressionOf(file, options.compression ?? 'auto') === 'none',
    async *read(split, from, context) {
      const { file } = split;
      const onDamage = damageHandler(options, context.onDamage);
      const decode = textDecoder(options.encoding ?? 'utf-8');
      const parser = await parserFor(file, context, onDamage);
      if (parser === null) {
        return;
      }
      try {
        for await (const { lines, bytes } of linesOf(split, from as number | null, options, context)) {
          for (const line of lines) {
            try {
              parser.parse(line, () => decodeLine(line, decode));
            } catch (error) {
              onDamage(undecodable(error, `${file.uri}, byte ${line.offset}`));
            }
          }
          const items = parser.take();
          if (items.length > 0) {
            yield { items, from: (lines[0] as Line).offset, bytes };
          }
        }
      } catch (error) {
        skipUnreadable(error, onDamage);
      }
    },
  };
}

/** Decodes a line, without the byte order mark of the file's first line. */
function decodeLine({ bytes, offset }: Line, decode: (bytes: Buffer) => string): string {
  const hasByteOrderMark = offset === 0 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return decode(hasByteOrderMark ? bytes.subarray(3) : bytes);
}

/**
 * Returns the first line of a file, or null if the file is empty.
 * @throws TonyError DATA_INVALID if the file cannot be read as text.
 */
export async function firstLine(file: DataFile, options: LineRecordOptions, context: ReadContext): Promise<string | null> {
  const split = { file, from: 0, to: file.size };
  const decode = textDecoder(options.encoding ?? 'utf-8');
  for await (const { lines } of linesOf(split, null, options, context)) {
    return decoding(`${file.uri}, byte 0`, () => decodeLine(lines[0] as Line, decode));
  }
  return null;
}

async function* linesOf(
  { file, from: start, to }: Split,
  resumeAt: number | null,
  options: LineRecordOptions,
  context: ReadContext,
): AsyncGenerator<{ readonly lines: readonly Line[]; readonly bytes: number }, void> {
  const compression = compressionOf(file, options.compression ?? 'auto');
  // A compressed file has only one split, whose `to` is the compressed size.
  const end = compression === 'none' ? to : Number.POSITIVE_INFINITY;
  let isAligned = resumeAt !== null || start === 0;
  const offset = resumeAt ?? Math.max(0, start - 1);
  if (offset >= end) {
    return;
  }
  const maxRecordBytes = options.maxRecordBytes ?? MAX_RECORD_BYTES;
  const { quotedDelimiter } = options;
  const quotes = quotedDelimiter === undefined ? {} : { delimiter: delimiterBytes(quotedDelimiter, options.encoding ?? 'utf-8') };
  const splitter = new LineSplitter({ where: file.uri, offset, maxRecordBytes, ...quotes });
  let isFirst = offset === 0 && (options.encoding ?? 'utf-8') === 'utf-8';
  for await (const bytes of readContents(file, compression, offset, context)) {
    if (isFirst) {
      refuseForeignText(file.uri, bytes);
      isFirst = false;
    }
    let lines = splitter.push(bytes);
    if (!isAligned && lines.length > 0) {
      // The first line belongs to the previous split.
      lines = lines.slice(1);
      isAligned = true;
    }
    const isLast = splitter.offset >= end;
    const own = isLast ? lines.filter((line) => line.offset < end) : lines;
    if (own.length > 0) {
      yield { lines: own, bytes: bytes.length };
    }
    if (isLast) {
      return;
    }
  }
  const rest = splitter.finish();
  if (isAligned && rest.length > 0) {
    yield { lines: rest, bytes: (rest[0] as Line).bytes.length };
  }
}
