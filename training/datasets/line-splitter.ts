import { TonyError } from '../../conf/errors.ts';

export interface Line {
  /** Of its first byte, in the file or in what it unpacks to. */
  readonly offset: number;
  /** Without the line break. */
  readonly bytes: Buffer;
}

export interface LineSplitterOptions {
  /** For messages. */
  readonly where: string;
  readonly offset: number;
  readonly maxRecordBytes: number;
  /** Line breaks between quotes (RFC 4180) belong to the line. */
  readonly isQuoted: boolean;
}

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const QUOTE = 0x22;

/** Finds lines in bytes as they come; they end with LF or CRLF, the last one may end with the file. */
export class LineSplitter {
  readonly #options: LineSplitterOptions;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  /** An odd number of quotes has been seen in the pending bytes. */
  #isWithinQuotes = false;
  #offset: number;

  constructor(options: LineSplitterOptions) {
    this.#options = options;
    this.#offset = options.offset;
  }

  /** Where the first line begins that was not returned yet. */
  get offset(): number {
    return this.#offset;
  }

  /** @throws TonyError DATA_INVALID when a line is longer than it may be. */
  push(bytes: Buffer): Line[] {
    const lines: Line[] = [];
    let start = 0;
    let searched = 0;
    for (;;) {
      const end = bytes.indexOf(NEWLINE, searched);
      const part = bytes.subarray(searched, end === -1 ? bytes.length : end);
      if (this.#options.isQuoted && hasOddQuotes(part)) this.#isWithinQuotes = !this.#isWithinQuotes;
      if (end === -1) break;
      searched = end + 1;
      if (this.#isWithinQuotes) continue;
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

  /** The last line, if it has no line break. */
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
  for (let at = bytes.indexOf(QUOTE); at !== -1; at = bytes.indexOf(QUOTE, at + 1)) isOdd = !isOdd;
  return isOdd;
}
