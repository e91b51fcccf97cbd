import type { ReadStream, WriteStream } from 'node:tty';
import { printable } from './terminal.ts';

const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const HOME = '\x1b[H';
const TO_END_OF_LINE = '\x1b[K';
const TO_END = '\x1b[J';

export interface FullScreenOptions {
  /** Keyboard; null if there is none. */
  readonly input: ReadStream | null;
  readonly output: WriteStream;
  readonly onKey: (key: string) => void;
  readonly onResize: () => void;
}

/** The alternate screen of a terminal. Closing it restores the previous content. */
export class FullScreen {
  readonly #options: FullScreenOptions;
  #open = true;

  constructor(options: FullScreenOptions) {
    this.#options = options;
    const { input, output, onResize } = options;
    // Also restore the terminal if the process exits without calling `close`.
    process.on('exit', this.#leave);
    output.write(ENTER);
    output.on('resize', onResize);
    // In raw mode, the terminal sends single keys, and Ctrl-C as a key.
    input?.setRawMode(true);
    input?.on('data', this.#typed);
    input?.resume();
  }

  /** @param lines lines that fit the width and height of the terminal. */
  draw(lines: readonly string[]): void {
    if (this.#open) {
      this.#options.output.write(`${HOME}${lines.map((line) => `${printable(line)}${TO_END_OF_LINE}`).join('\r\n')}${TO_END}`);
    }
  }

  close(): void {
    this.#leave();
  }

  readonly #typed = (bytes: Buffer): void => {
    // Split the input, because fast typing or a paste can send several keys in one chunk.
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
