import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** One write of many lines needs a fraction of the time and memory of many writes. */
const LARGEST_CHARACTERS = 64 * 1024;

/**
 * Writes lines to several streams in order. Combines the lines of one turn of the event loop into one write, and never delays a line beyond
 * that.
 */
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
    // The reader of a pipe may be slower than the cluster.
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
