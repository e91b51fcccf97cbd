import type { LogPiece } from '../../records/log-piece.ts';
import type { LogSource } from '../job-connection.ts';

export interface LogLine {
  /** Task name such as `worker:0`, or `master`. */
  readonly task: string;
  readonly containerId: string;
  readonly file: string;
  /** The line's text, without the newline. */
  readonly text: string;
}

/** Assumed maximum line length in bytes. To return the last `tail` lines, the reader requests `tail` times this length. */
const BYTES_A_LINE = 4096;
/** Number of characters to keep of a line with more than twice as many characters. `LEFT_OUT` replaces the line's beginning. */
const LONGEST_LINE = 16 << 20;
const NEWLINE = 0x0a;
const LONGEST_CHARACTER = 4;
/** Replaces the part of a line that was not read. */
const LEFT_OUT = '…';

/** Pause between reads of a file that is not growing, as a fraction of the time since the file last grew. */
const DELAY_SHARE = 0.05;
const LONGEST_DELAY_MS = 2_000;

/** Reads a growing file in parts, and splits it into complete lines. */
export class LogReader {
  /** Where to read the log file from. Changes when the job ends. */
  source: LogSource;
  /** Whether a read has found the file. */
  found = false;
  readonly #file: string;
  readonly #tail: number | undefined;
  readonly #decoder = new TextDecoder();
  readonly #now: () => number;
  /** When a read last returned bytes. */
  #grownAt: number;
  #dueAt = Number.NEGATIVE_INFINITY;
  #end: number | null = null;
  #rest = '';
  /** Newest `tail` lines until the reader first reaches the end of the file, and null from then on. */
  #held: string[] | null;

  constructor(source: LogSource, file: string, tail: number | undefined, now: () => number = () => performance.now()) {
    this.source = source;
    this.#now = now;
    this.#grownAt = now();
    this.#file = file;
    this.#tail = tail;
    this.#held = tail === undefined ? null : [];
  }

  /** Whether to read the file again. Files that are not growing are read less often, because each read is a request to a node. */
  get isDue(): boolean {
    return this.#now() >= this.#dueAt;
  }

  /**
   * Reads the next part of the file and returns its complete lines. `caughtUp` is true if there was nothing left to read.
   * @param over whether the file is complete
   */
  async next(over: boolean): Promise<{ readonly lines: readonly LogLine[]; readonly caughtUp: boolean }> {
    // Request one extra byte at the front, which shows whether the bytes after it start at the beginning of a line.
    const from = this.#end === null && this.#tail !== undefined ? { tail: this.#tail * BYTES_A_LINE + 1 } : { offset: this.#end ?? 0 };
    const piece = await this.source.read(this.#file, from);
    const caughtUp = piece === null || piece.bytes.length === 0;
    const now = this.#now();
    if (!caughtUp) {
      this.#grownAt = now;
    }
    this.#dueAt = now + Math.min(LONGEST_DELAY_MS, (now - this.#grownAt) * DELAY_SHARE);
    let lines: string[] = [];
    if (piece !== null) {
      this.found = true;
      const bytes = this.#end === null ? this.#begin(piece) : piece.bytes;
      this.#end = piece.end;
      lines = this.#complete(this.#decoder.decode(bytes, { stream: true }));
    }
    if (this.#held !== null) {
      this.#held = this.#newest([...this.#held, ...lines], over);
      lines = [];
      if (caughtUp && piece !== null) {
        lines = this.#held;
        this.#held = null;
      }
    }
    if (caughtUp && over && this.#rest !== '') {
      lines.push(this.#rest);
      this.#rest = '';
    }
    return { lines: lines.map((text) => this.#line(text)), caughtUp };
  }

  /** Adds text to the line that is incomplete so far. Returns the lines that the text completes. */
  #complete(text: string): string[] {
    // Search only the new text for newlines, because a line can consist of any number of parts.
    const [first = '', ...more] = text.split('\n');
    const last = more.pop();
    const line = this.#rest + first;
    // Shortening only lines of twice the maximum length takes linear time, because it copies each character at most twice.
    const whole = line.length > 2 * LONGEST_LINE ? `${LEFT_OUT}${line.slice(-LONGEST_LINE)}` : line;
    this.#rest = last ?? whole;
    return last === undefined ? [] : [whole, ...more];
  }

  /** Replaces the beginning of an incomplete first line with an ellipsis, and drops the rest of an incomplete character. */
  #begin({ bytes, end }: LogPiece): Uint8Array {
    if (end === bytes.length) {
      return bytes;
    }
    if (bytes[0] === NEWLINE) {
      return bytes.subarray(1);
    }
    // `#newest` drops the incomplete line if there are enough complete lines.
    this.#rest = LEFT_OUT;
    // If the first character is incomplete, the bytes begin with continuation bytes (10xxxxxx).
    const first = bytes.subarray(0, LONGEST_CHARACTER).findIndex((byte) => (byte & 0xc0) !== 0x80);
    return bytes.subarray(Math.max(0, first));
  }

  /** Returns the newest `tail` lines. An unterminated last line counts if the file is complete. */
  #newest(lines: string[], over: boolean): string[] {
    const wanted = (this.#tail ?? 0) - (over && this.#rest !== '' ? 1 : 0);
    return wanted <= 0 ? [] : lines.slice(-wanted);
  }

  #line(text: string): LogLine {
    const { task, containerId } = this.source;
    return { task, containerId, file: this.#file, text: text.replace(/\r$/, '') };
  }
}
