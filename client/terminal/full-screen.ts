import type { ReadStream, WriteStream } from 'node:tty';
import { printable } from './terminal.ts';

const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const HOME = '\x1b[H';
const TO_END_OF_LINE = '\x1b[K';
const TO_END = '\x1b[J';

export interface FullScreenOptions {
  /** Keyboard input, or null if there is none. */
  readonly input: ReadStream | null;
  readonly output: WriteStream;
  readonly onKey: (key: string) => void;
  readonly onResize: () => void;
}

/** Uses the alternate screen of a terminal. Closing the object restores the previous content. */
export class FullScreen {
  readonly #options: FullScreenOptions;
  #open = true;

  constructor(options: FullScreenOptions) {
    this.#options = options;
    const { input, output, onResize } = options;
    // Restore the terminal even if the process exits without calling `close`.
    process.on('exit', this.#leave);
    output.write(ENTER);
    output.on('resize', onResize);
    // In raw mode, the terminal delivers each key press immediately, including Ctrl-C.
    input?.setRawMode(true);
    input?.on('data', this.#typed);
    input?.resume();
  }

  /** @param lines lines that fit within the terminal's width and height */
  draw(lines: readonly string[]): void {
    if (this.#open) {
      this.#options.output.write(`${HOME}${lines.map((line) => `${printable(line)}${TO_END_OF_LINE}`).join('\r\n')}${TO_END}`);
    }
  }

  close(): void {
    this.#leave();
  }

  readonly #typed = (bytes: Buffer): void => {
    // Split the input, because a chunk can contain several key presses if the user types fast or pastes text.
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

/** Matches a single character, or a key's escape sequence. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with one
const KEY = /\x1b(?:\[[0-?]*[ -/]*[@-~]|O[A-Za-z])|[\s\S]/gu;
