import type { LogPiece } from '../records/log-piece.ts';
import type { LogSource } from './job-connection.ts';

export interface LogLine {
  /** `worker:0`, or `master`. */
  readonly task: string;
  readonly containerId: string;
  readonly file: string;
  /** The line without its newline. */
  readonly text: string;
}

/**
 * A generous estimate of the bytes per line. For `tail` lines, the reader fetches only `tail` times this many bytes from the end of the
 * file.
 */
const BYTES_A_LINE = 4096;
const LONGEST_LINE = 1 << 20;
const NEWLINE = 0x0a;
/** Maximum bytes per UTF-8 character; a first byte is distinguishable from continuation bytes. */
const LONGEST_CHARACTER = 4;
/** Replaces the beginning of a line that is longer than the fetched bytes. */
const LEFT_OUT = '…';

/** Splits the pieces of one growing file into whole lines. */
export class LogReader {
  /** The current location of the container's logs, which changes after the job's end. */
  source: LogSource;
  /** Whether the file has ever existed. */
  found = false;
  readonly #file: string;
  readonly #tail: number | undefined;
  readonly #decoder = new TextDecoder();
  #end: number | null = null;
  #rest = '';
  /** The newest `tail` lines so far. Null without `tail`, and after the reader has caught up and returned them. */
  #held: string[] | null;

  constructor(source: LogSource, file: string, tail: number | undefined) {
    this.source = source;
    this.#file = file;
    this.#tail = tail;
    this.#held = tail === undefined ? null : [];
  }

  /** Returns the lines of the next piece. `caughtUp`: the file has no more content for now. `over`: the file will not grow any more. */
  async next(over: boolean): Promise<{ readonly lines: readonly LogLine[]; readonly caughtUp: boolean }> {
    // Fetches one extra byte, which shows whether the fetched bytes start at the beginning of a line.
    const from = this.#end === null && this.#tail !== undefined ? { tail: this.#tail * BYTES_A_LINE + 1 } : { offset: this.#end ?? 0 };
    const piece = await this.source.read(this.#file, from);
    const caughtUp = piece === null || piece.bytes.length === 0;
    let lines: string[] = [];
    if (piece !== null) {
      this.found = true;
      const bytes = this.#end === null ? this.#begin(piece) : piece.bytes;
      this.#end = piece.end;
      lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split('\n');
      this.#rest = (lines.pop() ?? '').slice(-LONGEST_LINE);
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

  /** Cuts the first piece to start at a line or, within a truncated line, at a character. */
  #begin({ bytes, end }: LogPiece): Uint8Array {
    if (end === bytes.length) {
      return bytes;
    }
    if (bytes[0] === NEWLINE) {
      return bytes.subarray(1);
    }
    // This truncated line is used only if the piece has fewer complete lines than requested.
    this.#rest = LEFT_OUT;
    const first = bytes.subarray(0, LONGEST_CHARACTER).findIndex((byte) => (byte & 0xc0) !== 0x80);
    return bytes.subarray(Math.max(0, first));
  }

  /** Returns the newest lines. The unfinished last line counts only when the file has stopped growing. */
  #newest(lines: string[], over: boolean): string[] {
    const wanted = (this.#tail ?? 0) - (over && this.#rest !== '' ? 1 : 0);
    return wanted <= 0 ? [] : lines.slice(-wanted);
  }

  #line(text: string): LogLine {
    const { task, containerId } = this.source;
    return { task, containerId, file: this.#file, text: text.replace(/\r$/, '') };
  }
}
