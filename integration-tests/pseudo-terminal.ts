import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import type { Writable } from 'node:stream';
import xterm from '@xterm/headless';
import { onTestFinished } from 'vitest';
import { COMMAND, type CommandOptions, environment, ROOT } from './command.ts';
import { PROGRAM_HANGS_MS, until } from './until.ts';

const PROGRAM = path.join(import.meta.dirname, 'pseudo-terminal.py');
const ROWS = 40;

export interface TerminalOptions extends CommandOptions {
  readonly columns: number;
  readonly rows?: number;
}

/** A command that runs in a pseudo-terminal, and the contents of its screen. */
export class PseudoTerminal {
  readonly exitCode: Promise<number | null>;
  readonly #child: ChildProcess;
  readonly #terminal: xterm.Terminal;
  readonly #words: readonly string[];
  /** Resolves when the emulator has processed all output received so far. */
  #shown: Promise<void> = Promise.resolve();
  #raw = '';
  /** Lines that the terminal wrapped because they were wider than the screen. */
  readonly #broken = new Set<string>();

  constructor(words: readonly string[], { columns, rows = ROWS, env = {}, cwd = ROOT, timeoutMs = PROGRAM_HANGS_MS }: TerminalOptions) {
    this.#words = words;
    this.#terminal = new xterm.Terminal({ cols: columns, rows, scrollback: 10_000, allowProposedApi: true });
    this.#child = spawn('python3', [PROGRAM, String(columns), String(rows), ...words], {
      cwd,
      env: environment({ NO_COLOR: undefined, TERM: 'xterm-256color', COLUMNS: undefined, LINES: undefined, ...env }),
      stdio: ['pipe', 'pipe', 'inherit', 'pipe'],
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
    });
    const decoder = new TextDecoder();
    this.#child.stdout?.on('data', (bytes: Buffer) => {
      const text = decoder.decode(bytes, { stream: true });
      this.#raw += text;
      this.#shown = new Promise((resolve) => {
        this.#terminal.write(text, () => {
          this.#noteBroken();
          resolve();
        });
      });
    });
    this.exitCode = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', (code) => void this.#shown.then(() => resolve(code)));
    });
  }

  get raw(): string {
    return this.#raw;
  }

  /** All lines including the scrollback, without colors and trailing empty lines. */
  lines(): string[] {
    const { active } = this.#terminal.buffer;
    const lines = Array.from({ length: active.length }, (_, at) => active.getLine(at)?.translateToString(true) ?? '');
    return lines.slice(0, lines.findLastIndex((line) => line !== '') + 1);
  }

  text(): string {
    return this.lines().join('\n');
  }

  /** Lines that were wider than the terminal at any time. */
  get brokenLines(): readonly string[] {
    return [...this.#broken];
  }

  get cursorShown(): boolean {
    return this.#raw.lastIndexOf('\x1b[?25h') >= this.#raw.lastIndexOf('\x1b[?25l');
  }

  async sees(pattern: RegExp): Promise<RegExpExecArray> {
    return until(() => pattern.exec(this.text()), {
      everyMs: 20,
      describe: () => `${pattern} in the terminal of ${this.#words.join(' ')}:\n${this.text()}`,
    });
  }

  get columns(): number {
    return this.#terminal.cols;
  }

  type(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  /** Changes the size of the terminal's window. */
  resize(columns: number, rows: number): void {
    this.#terminal.resize(columns, rows);
    (this.#child.stdio[3] as Writable).write(`${columns} ${rows}\n`);
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }

  #noteBroken(): void {
    const { active } = this.#terminal.buffer;
    for (let at = 0; at < active.length; at++) {
      const line = active.getLine(at);
      if (line?.isWrapped) {
        this.#broken.add(`${active.getLine(at - 1)?.translateToString(true)}${line.translateToString(true)}`);
      }
    }
  }
}

/** Runs a program in a pseudo-terminal and kills it when the test ends. */
export function openTerminal(words: readonly string[], options: TerminalOptions): PseudoTerminal {
  const terminal = new PseudoTerminal(words, options);
  onTestFinished(() => terminal.close());
  return terminal;
}

export function terminalCommand(words: readonly string[], options: TerminalOptions): PseudoTerminal {
  return openTerminal([process.execPath, COMMAND, ...words], options);
}
