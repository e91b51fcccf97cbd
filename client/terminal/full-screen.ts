import type { ReadStream, WriteStream } from 'node:tty';
import { printable } from './terminal.ts';

const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const HOME = '\x1b[H';
const TO_END_OF_LINE = '\x1b[K';
const TO_END = '\x1b[J';

export interface FullScreenOptions {
  /** The keyboard; null if there is none. */
  readonly input: ReadStream | null;
  readonly output: WriteStream;
  readonly onKey: (key: string) => void;
  /** Called when the window size changes. */
  readonly onResize: () => void;
}

/** The terminal's alternate screen; closing it restores the previous content of the terminal. */
export class FullScreen {
  readonly #options: FullScreenOptions;
  #open = true;

  constructor(options: FullScreenOptions) {
    this.#options = options;
    const { input, output, onResize } = options;
    // Also restore the terminal if the process exits without `close`.
    process.on('exit', this.#leave);
    output.write(ENTER);
    output.on('resize', onResize);
    // Raw mode delivers single keys, and Ctrl-C as a key.
    input?.setRawMode(true);
    input?.on('data', this.#typed);
    input?.resume();
  }

  /** @param lines must fit the terminal's width and height. */
  draw(lines: readonly string[]): void {
    if (this.#open) {
      this.#options.output.write(`${HOME}${lines.map((line) => `${printable(line)}${TO_END_OF_LINE}`).join('\r\n')}${TO_END}`);
    }
  }

  /** Restores the terminal. */
  close(): void {
    this.#leave();
  }

  readonly #typed = (bytes: Buffer): void => {
    // Fast typing or a paste delivers several keys at once.
    for (const key of bytes.toString().match(KEY) ?? []) {
      this.#options.onKey(key);
    }
  };

  readonly #leave = (): void => {
    if (!this.#open) {
      return;
    }
    this.#open = false;
    const { input, output, onResize } = this.#options;
    process.off('exit', this.#leave);
    input?.off('data', this.#typed);
    input?.setRawMode(false);
    input?.pause();
    output.off('resize', onResize);
    output.write(LEAVE);
  };
}

/** Matches the escape sequence of a key, or one character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with one
const KEY = /\x1b(?:\[[0-?]*[ -/]*[@-~]|O[A-Za-z])|[\s\S]/gu;
