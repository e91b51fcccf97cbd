import { TonyError } from '../../../platform/errors.ts';

export interface Line {
  /** Offset of the line's first byte in the file's uncompressed contents. */
  readonly offset: number;
  readonly bytes: Buffer;
}

export interface LineSplitterOptions {
  readonly where: string;
  readonly offset: number;
  readonly maxRecordBytes: number;
  /** True if quoted values may contain line breaks (RFC 4180). */
  readonly isQuoted: boolean;
}

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const QUOTE = 0x22;

/** Splits incoming bytes into lines that end with LF or CRLF. The last line need not end with a line break. */
export class LineSplitter {
  readonly #options: LineSplitterOptions;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #isWithinQuotes = false;
  #offset: number;

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
    let searched = 0;
    for (;;) {
      const end = bytes.indexOf(NEWLINE, searched);
      const part = bytes.subarray(searched, end === -1 ? bytes.length : end);
      if (this.#options.isQuoted && hasOddQuotes(part)) {
        this.#isWithinQuotes = !this.#isWithinQuotes;
      }
      if (end === -1) {
        break;
      }
      searched = end + 1;
      if (this.#isWithinQuotes) {
        continue;
      }
      lines.push(this.#line(bytes.subarray(start, end), 1));
      start = searched;
    }
    if (start < bytes.length) {
      this.#pending.push(bytes.subarray(start));
      this.#pendingBytes += bytes.length - start;
      this.#refuse(this.#pendingBytes);
    }
    return lines;
  }

  /** Returns the last line if it does not end with a line break. */
  finish(): Line[] {
    return this.#pendingBytes === 0 ? [] : [this.#line(Buffer.alloc(0), 0)];
  }

  #line(tail: Buffer, breakBytes: number): Line {
    const whole = this.#pendingBytes === 0 ? tail : Buffer.concat([...this.#pending, tail]);
    this.#refuse(whole.length);
    const offset = this.#offset;
    this.#offset += whole.length + breakBytes;
    this.#pending = [];
    this.#pendingBytes = 0;
    this.#isWithinQuotes = false;
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

function hasOddQuotes(bytes: Buffer): boolean {
  let isOdd = false;
  for (let at = bytes.indexOf(QUOTE); at !== -1; at = bytes.indexOf(QUOTE, at + 1)) {
    isOdd = !isOdd;
  }
  return isOdd;
}
