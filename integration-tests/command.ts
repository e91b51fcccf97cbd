import { type ChildProcess, spawn } from 'node:child_process';
import { access } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { PROGRAM_HANGS_MS, until } from './until.ts';

export const ROOT = path.resolve(import.meta.dirname, '..');
export const COMMAND = path.join(ROOT, 'dist', 'tony-ts.js');

export interface CommandResult {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  /** Variables to add to the command's environment. A value of undefined removes the variable. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  readonly timeoutMs?: number;
  /** Node.js executable for the command. Default: the executable that runs the tests. */
  readonly node?: string;
}

/** A running `tony-ts` command, which is killed when the test ends. */
export class Command {
  readonly result: Promise<CommandResult>;
  readonly #child: ChildProcess;
  readonly #words: readonly string[];
  #stdout = '';
  #stderr = '';

  constructor(
    words: readonly string[],
    { env = {}, cwd = ROOT, timeoutMs = PROGRAM_HANGS_MS, node = process.execPath }: CommandOptions = {},
  ) {
    this.#words = words;
    this.#child = spawn(node, [COMMAND, ...words], {
      cwd,
      env: environment(env),
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
    });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
    });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    this.result = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', (exitCode, signal) => resolve({ exitCode, signal, stdout: this.#stdout, stderr: this.#stderr }));
    });
  }

  get pid(): number {
    if (this.#child.pid === undefined) {
      throw new Error('the command did not start');
    }
    return this.#child.pid;
  }

  get stdout(): string {
    return this.#stdout;
  }

  get stderr(): string {
    return this.#stderr;
  }

  async output(pattern: RegExp): Promise<RegExpExecArray> {
    return until(() => pattern.exec(this.#stdout) ?? pattern.exec(this.#stderr), {
      describe: () => `${pattern} in the output of tony-ts ${this.#words.join(' ')}:\n${this.#stdout}\n${this.#stderr}`,
    });
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }
}

/** Starts the built `tony-ts`. Only usable inside a test. */
export function startCommand(words: readonly string[], options: CommandOptions = {}): Command {
  const command = new Command(words, options);
  onTestFinished(() => command.signal('SIGKILL'));
  return command;
}

/** Runs `tony-ts` until it exits. The caller checks the exit code. Also usable in `beforeAll`. */
export async function runCommand(words: readonly string[], options: CommandOptions = {}): Promise<CommandResult> {
  await access(COMMAND);
  return new Command(words, options).result;
}

/** Parses the lines that `--output json` prints. */
export function jsonLines(stdout: string): Record<string, unknown>[] {
  return stdout
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** All tests share this user's runtimes, including tests that set another HOME. */
const TONY_CACHE_DIR = process.env.TONY_CACHE_DIR ?? path.join(process.env.XDG_CACHE_HOME ?? path.join(homedir(), '.cache'), 'tony-ts');

/** This process's environment, without the variables that select a cluster or a user. */
export function environment(changes: Readonly<Record<string, string | undefined>>): NodeJS.ProcessEnv {
  const own = Object.entries({ ...process.env, NO_COLOR: '1' }).filter(
    ([name]) => !/^(HADOOP_|TONY_|VITEST|NODE_OPTIONS$|FORCE_COLOR$)/.test(name),
  );
  own.push(['TONY_CACHE_DIR', TONY_CACHE_DIR]);
  const all = { ...Object.fromEntries(own), ...changes };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}
