/** Maximum number of lines that may wait for a slow output. */
const MOST_LINES = 256;

/** Combines lines into batches for an output that may be slow. Each batch contains the lines that arrived while the output was busy. */
export class LineBatches<Line> {
  readonly #show: (lines: readonly Line[]) => Promise<void>;
  #waiting: Line[] = [];
  #showing: Promise<void> | null = null;

  constructor(show: (lines: readonly Line[]) => Promise<void>) {
    this.#show = show;
  }

  /**
   * Adds a line. Resolves when there is room for the next line.
   * @throws the errors of `show`
   */
  async add(line: Line): Promise<void> {
    this.#waiting.push(line);
    this.#showing ??= this.#showAll();
    // Prevents an unhandled rejection. `#showing` keeps the error for the next call.
    this.#showing.catch(() => undefined);
    if (this.#waiting.length >= MOST_LINES) {
      await this.#showing;
    }
  }

  /**
   * Resolves when the output has accepted all lines.
   * @throws the errors of `show`
   */
  async flush(): Promise<void> {
    await this.#showing;
  }

  async #showAll(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const lines = this.#waiting;
      this.#waiting = [];
      await this.#show(lines);
    }
    this.#showing = null;
  }
}
