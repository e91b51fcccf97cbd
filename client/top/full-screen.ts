import type { ReadStream, WriteStream } from 'node:tty';

const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const HOME = '\x1b[H';
const TO_END_OF_LINE = '\x1b[K';
const TO_END = '\x1b[J';

export interface FullScreenOptions {
  /** Null where nobody types. */
  readonly input: ReadStream | null;
  readonly output: WriteStream;
  readonly onKey: (key: string) => void;
  /** The window has another size. */
  readonly onResize: () => void;
}

/** The terminal's other screen, which programs draw on as they like: what was on the terminal before is there again when it is closed. */
export class FullScreen {
  readonly #options: FullScreenOptions;
  #open = true;

  constructor(options: FullScreenOptions) {
    this.#options = options;
    const { input, output, onResize } = options;
    // Also when the process is ended from within.
    process.on('exit', this.#leave);
    output.write(ENTER);
    output.on('resize', onResize);
    // Keys come one by one, and Ctrl-C as a key.
    input?.setRawMode(true);
    input?.on('data', this.#typed);
    input?.resume();
  }

  /** Lines no wider than the terminal and no more than it has. */
  draw(lines: readonly string[]): void {
    if (this.#open) this.#options.output.write(`${HOME}${lines.map((line) => `${line}${TO_END_OF_LINE}`).join('\r\n')}${TO_END}`);
  }

  /** Leaves the terminal as it was. */
  close(): void {
    this.#leave();
  }

  readonly #typed = (bytes: Buffer): void => {
    // A hand that is fast, or a paste, sends several at once.
    for (const key of bytes.toString().match(KEY) ?? []) this.#options.onKey(key);
  };

  readonly #leave = (): void => {
    if (!this.#open) return;
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

/** A key with its escape sequence, or a character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences start with one
const KEY = /\x1b(?:\[[0-?]*[ -/]*[@-~]|O[A-Za-z])|[\s\S]/gu;
