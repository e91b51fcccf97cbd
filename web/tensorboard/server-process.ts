import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { messageOf } from '../../conf/errors.ts';
import type { Logger } from '../../conf/log.ts';
import { ISOLATION, type Python } from './python.ts';

/** Beside this file, and beside every bundle that holds it. */
const SCRIPT = fileURLToPath(new URL('./tensorboard-server.py', import.meta.url));
const MAX_LINE = 2_000;
const KEPT_ENVIRONMENT = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'LD_LIBRARY_PATH'];

export interface ServerProcessOptions {
  readonly python: Python;
  /** Its working folder. */
  readonly folder: string;
  /** As its own process sees it. */
  readonly socket: string;
  /** The folder with event files. */
  readonly logs: string;
  readonly log: Logger;
}

export interface ServerEnd {
  /** `TensorBoard ended by SIGKILL: it did not answer for 120 s.` */
  readonly sentence: string;
  /** Why TensorBoard cannot be imported; null when it can, for all that is known. */
  readonly missing: string | null;
}

/** One process of Python that serves TensorBoard. It ends when this process does, however that ends: its standard input is closed then. */
export class ServerProcess {
  /** True when it listens, false when it has ended before. */
  readonly ready: Promise<boolean>;
  readonly ended: Promise<ServerEnd>;
  readonly #child: ChildProcess;
  #reason = '';
  #missing: string | null = null;
  #lastLine = '';

  private constructor(options: ServerProcessOptions) {
    const { python, folder, socket, logs, log } = options;
    const flags = [
      `--logdir=${logs}`,
      // The fast loader is another program, with a port that everybody on the machine could reach.
      '--load_fast=false',
      // A run that was interrupted goes on in another file; clocks of nodes differ, so that its name may come first.
      '--reload_multifile=true',
      // Whatever time their events say: what grows is read.
      '--reload_multifile_inactive_secs=-1',
      '--reload_interval=3',
    ];
    const request = JSON.stringify({ packages: python.packages, socket, flags });
    this.#child = spawn(python.command, [...ISOLATION, '-X', `pycache_prefix=${path.join(folder, 'bytecode')}`, SCRIPT, request], {
      cwd: folder,
      env: environment(),
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stdin?.on('error', () => {});
    this.ready = new Promise((resolve) => {
      this.#lines(this.#child.stdout, (line) => {
        const said = parse(line);
        if (typeof said.missing === 'string') this.#missing = said.missing;
        if (said.ready === true) resolve(true);
      });
      this.#child.once('close', () => resolve(false)).once('error', () => resolve(false));
    });
    this.#lines(this.#child.stderr, (line) => {
      this.#lastLine = line;
      log.info({ from: 'python' }, line);
    });
    this.ended = new Promise((resolve) => {
      this.#child.once('error', (error) => resolve({ sentence: `TensorBoard could not be started: ${messageOf(error)}.`, missing: null }));
      this.#child.once('close', (code, signal) => resolve({ sentence: this.#sentence(code, signal), missing: this.#missing }));
    });
  }

  static start(options: ServerProcessOptions): ServerProcess {
    return new ServerProcess(options);
  }

  kill(reason = ''): void {
    this.#reason ||= reason;
    this.#child.kill('SIGKILL');
  }

  #sentence(code: number | null, signal: NodeJS.Signals | null): string {
    if (this.#reason !== '') return `TensorBoard was ended: ${this.#reason}.`;
    if (signal !== null) return `TensorBoard was ended by ${signal}.`;
    return `TensorBoard ended with exit code ${code}${this.#lastLine === '' ? '' : `: ${this.#lastLine}`}.`;
  }

  #lines(stream: Readable | null, take: (line: string) => void): void {
    if (stream === null) return;
    createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on('line', (line) => {
      if (line.trim() !== '') take(line.slice(0, MAX_LINE));
    });
  }
}

function environment(): Record<string, string> {
  const kept = KEPT_ENVIRONMENT.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]] as const]));
  // It multiplies no matrices: threads for that are memory for nothing.
  return { ...Object.fromEntries(kept), OPENBLAS_NUM_THREADS: '1', OMP_NUM_THREADS: '1', PYTHONUNBUFFERED: '1' };
}

function parse(line: string): { readonly ready?: unknown; readonly missing?: unknown } {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}
