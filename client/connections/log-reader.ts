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
 * Upper estimate of the length of a line (bytes). For the last `tail` lines, the reader fetches `tail` times this length.
 */
const BYTES_A_LINE = 4096;
const LONGEST_LINE = 1 << 20;
const NEWLINE = 0x0a;
/** Maximum length of a UTF-8 character (bytes). */
const LONGEST_CHARACTER = 4;
/** Replaces the beginning of a line that is longer than the fetched bytes. */
const LEFT_OUT = '…';

/** Reads a growing file piece by piece and splits it into whole lines. */
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
  /** The newest `tail` lines until the reader reaches the end of the file; then, and without `tail`, null. */
  #held: string[] | null;

  constructor(source: LogSource, file: string, tail: number | undefined) {
    this.source = source;
    this.#file = file;
    this.#tail = tail;
    this.#held = tail === undefined ? null : [];
  }

  /** Returns the lines of the next piece. `caughtUp`: the reader has reached the end of the file. @param over whether the file is complete */
  async next(over: boolean): Promise<{ readonly lines: readonly LogLine[]; readonly caughtUp: boolean }> {
    // The first byte is extra: it shows whether the remaining bytes start at the beginning of a line.
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

  /** Trims the first piece so that it begins with a whole line or, within a truncated line, with a whole character. */
  #begin({ bytes, end }: LogPiece): Uint8Array {
    if (end === bytes.length) {
      return bytes;
    }
    if (bytes[0] === NEWLINE) {
      return bytes.subarray(1);
    }
    // `#newest` keeps this truncated line only if the piece has too few complete lines.
    this.#rest = LEFT_OUT;
    // Skip the continuation bytes (10xxxxxx) of a truncated character.
    const first = bytes.subarray(0, LONGEST_CHARACTER).findIndex((byte) => (byte & 0xc0) !== 0x80);
    return bytes.subarray(Math.max(0, first));
  }

  /** Returns the newest `tail` lines. The unfinished last line counts only if the file is complete. */
  #newest(lines: string[], over: boolean): string[] {
    const wanted = (this.#tail ?? 0) - (over && this.#rest !== '' ? 1 : 0);
    return wanted <= 0 ? [] : lines.slice(-wanted);
  }

  #line(text: string): LogLine {
    const { task, containerId } = this.source;
    return { task, containerId, file: this.#file, text: text.replace(/\r$/, '') };
  }
}
