import type { LogPiece, LogSource } from './job-connection.ts';

export interface LogLine {
  /** `worker:0`, or `master`. */
  readonly task: string;
  readonly containerId: string;
  readonly file: string;
  /** Without its newline. */
  readonly text: string;
}

/** More than a line needs: only as much of a file's end is fetched as `tail` lines will hardly exceed. */
const BYTES_A_LINE = 4096;
const LONGEST_LINE = 1 << 20;
const NEWLINE = 0x0a;
/** Bytes of a character in UTF-8; the first one tells itself from the others. */
const LONGEST_CHARACTER = 4;
/** In place of the beginning of a line that is longer than what was fetched. */
const LEFT_OUT = '…';

/** Turns the pieces of one growing file into whole lines. */
export class LogReader {
  /** Where the container's logs are by now: after the end elsewhere. */
  source: LogSource;
  /** Whether there has ever been such a file. */
  found = false;
  readonly #file: string;
  readonly #tail: number | undefined;
  readonly #decoder = new TextDecoder();
  #end: number | null = null;
  #rest = '';
  /** The last lines so far, while `tail` lets only those through. */
  #held: string[] | null;

  constructor(source: LogSource, file: string, tail: number | undefined) {
    this.source = source;
    this.#file = file;
    this.#tail = tail;
    this.#held = tail === undefined ? null : [];
  }

  /** The next piece's lines; `caughtUp` when there is no more for now. `over`: nothing will be written any more. */
  async next(over: boolean): Promise<{ readonly lines: readonly LogLine[]; readonly caughtUp: boolean }> {
    // One byte more says whether what comes behind it begins a line.
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

  /** The first piece from where a line or, in one that is cut, at least a character begins. */
  #begin({ bytes, end }: LogPiece): Uint8Array {
    if (end === bytes.length) return bytes;
    if (bytes[0] === NEWLINE) return bytes.subarray(1);
    // Shown only if there are fewer lines than are wanted.
    this.#rest = LEFT_OUT;
    const first = bytes.subarray(0, LONGEST_CHARACTER).findIndex((byte) => (byte & 0xc0) !== 0x80);
    return bytes.subarray(Math.max(0, first));
  }

  /** The unfinished last line counts too when nothing more will come. */
  #newest(lines: string[], over: boolean): string[] {
    const wanted = (this.#tail ?? 0) - (over && this.#rest !== '' ? 1 : 0);
    return wanted <= 0 ? [] : lines.slice(-wanted);
  }

  #line(text: string): LogLine {
    const { task, containerId } = this.source;
    return { task, containerId, file: this.#file, text: text.replace(/\r$/, '') };
  }
}
