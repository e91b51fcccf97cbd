import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** Maximum number of characters per write. A few large writes are much faster than many small ones. */
const LARGEST_CHARACTERS = 64 * 1024;

/** Writes lines to several streams in order. Combines lines that are added in the same turn of the event loop into one write. */
export class LineOutput {
  #stream: Writable | null = null;
  #text = '';
  #flushing: NodeJS.Immediate | null = null;

  /** Resolves when the stream accepts more data. */
  async write(stream: Writable, text: string): Promise<void> {
    if (stream !== this.#stream) {
      await this.flush();
    }
    this.#stream = stream;
    this.#text += text;
    if (this.#text.length >= LARGEST_CHARACTERS) {
      await this.flush();
    } else {
      this.#flushing ??= setImmediate(() => this.#put());
    }
  }

  async flush(): Promise<void> {
    this.#put();
    // If the program that reads from a pipe is slow, wait, so that lines do not accumulate in memory.
    if (this.#stream?.writableNeedDrain) {
      await once(this.#stream, 'drain');
    }
  }

  #put(): void {
    if (this.#flushing !== null) {
      clearImmediate(this.#flushing);
    }
    this.#flushing = null;
    const text = this.#text;
    this.#text = '';
    if (text !== '') {
      this.#stream?.write(text);
    }
  }
}
