import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { ISOLATION, type Python } from '../../platform/python/interpreters.ts';

/** The build places a copy of the script next to every bundle that includes this file. */
const SCRIPT = fileURLToPath(new URL('./tensorboard-server.py', import.meta.url));
const MAX_LINE = 2_000;
const KEPT_ENVIRONMENT = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'LD_LIBRARY_PATH'];

export interface ServerProcessOptions {
  readonly python: Python;
  readonly folder: string;
  /** The socket's path as the TensorBoard process sees it. */
  readonly socket: string;
  readonly logs: string;
  readonly log: Logger;
}

export interface ServerEnd {
  /** For example `TensorBoard was stopped: it did not answer for 120 s.` */
  readonly message: string;
  /** The reason why Python cannot import TensorBoard, or null if it can. */
  readonly missing: string | null;
}

/** A Python process that serves TensorBoard. The process exits when its standard input closes, so it never outlives its parent. */
export class ServerProcess {
  /** Resolves to true once TensorBoard is listening, or to false if the process exits first. */
  readonly ready: Promise<boolean>;
  readonly ended: Promise<ServerEnd>;
  readonly #child: ChildProcess;
  #reason = '';
  #missing: string | null = null;
  #lastLine = '';

  constructor(options: ServerProcessOptions) {
    const { python, folder, socket, logs, log } = options;
    const flags = [
      `--logdir=${logs}`,
      // The fast loader is a separate process. It listens on a port to which every user on the machine can connect.
      '--load_fast=false',
      // A restarted run continues in a new file. The new name may sort before the old name, because the nodes' clocks differ.
      '--reload_multifile=true',
      // Keeps reading growing files regardless of how old their events are.
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
        const message = parse(line);
        if (typeof message.missing === 'string') {
          this.#missing = message.missing;
        }
        if (message.ready === true) {
          resolve(true);
        }
      });
      this.#child.once('close', () => resolve(false)).once('error', () => resolve(false));
    });
    this.#lines(this.#child.stderr, (line) => {
      this.#lastLine = line;
      log.info({ from: 'python' }, line);
    });
    this.ended = new Promise((resolve) => {
      this.#child.once('error', (error) => resolve({ message: `TensorBoard could not be started: ${messageOf(error)}.`, missing: null }));
      this.#child.once('close', (code, signal) => resolve({ message: this.#endMessage(code, signal), missing: this.#missing }));
    });
  }

  kill(reason = ''): void {
    this.#reason ||= reason;
    this.#child.kill('SIGKILL');
  }

  #endMessage(code: number | null, signal: NodeJS.Signals | null): string {
    if (this.#reason !== '') {
      return `TensorBoard was stopped: ${this.#reason}.`;
    }
    if (signal !== null) {
      return `TensorBoard was killed by ${signal}.`;
    }
    return `TensorBoard exited with code ${code}${this.#lastLine === '' ? '' : `: ${this.#lastLine}`}.`;
  }

  #lines(stream: Readable | null, take: (line: string) => void): void {
    if (stream === null) {
      return;
    }
    createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on('line', (line) => {
      if (line.trim() !== '') {
        take(line.slice(0, MAX_LINE));
      }
    });
  }
}

function environment(): Record<string, string> {
  const kept = KEPT_ENVIRONMENT.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]] as const]));
  // TensorBoard does not multiply matrices, so additional threads would only use memory.
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
