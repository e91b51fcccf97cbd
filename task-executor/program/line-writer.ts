import { writeSync } from 'node:fs';
import type { Readable } from 'node:stream';

/** Maximum length of a line in bytes. Longer lines are split. */
const LONGEST_LINE = 64 * 1024;
const LINE_FEED = 0x0a;

/** Copies a stream to a file descriptor in whole lines, each with a prefix, so that lines from several writers do not mix. */
export class LineWriter {
  readonly ended: Promise<void>;
  readonly #descriptor: number;
  readonly #prefix: Buffer;
  #begun: Buffer = Buffer.alloc(0);

  constructor(source: Readable, descriptor: number, prefix: string) {
    this.#descriptor = descriptor;
    this.#prefix = Buffer.from(prefix);
    this.ended = new Promise((resolve) => source.once('close', resolve));
    source.on('data', (data: Buffer) => this.#take(data));
    source.on('error', () => {});
  }

  /** Writes the last line if it does not end with a line feed. */
  flush(): void {
    if (this.#begun.length > 0) {
      this.#take(Buffer.from('\n'));
    }
  }

  #take(data: Buffer): void {
    let rest = Buffer.concat([this.#begun, data]);
    const lines: Buffer[] = [];
    for (let end = rest.indexOf(LINE_FEED); end >= 0 || rest.length >= LONGEST_LINE; end = rest.indexOf(LINE_FEED)) {
      const length = end >= 0 && end < LONGEST_LINE ? end : LONGEST_LINE;
      lines.push(this.#prefix, rest.subarray(0, length), Buffer.of(LINE_FEED));
      rest = rest.subarray(length === end ? length + 1 : length);
    }
    this.#begun = Buffer.from(rest);
    const text = Buffer.concat(lines);
    for (let written = 0; written < text.length; ) {
      written += writeSync(this.#descriptor, text, written);
    }
  }
}
