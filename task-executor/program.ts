import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { pause } from '../platform/backoff.ts';
import { messageOf } from '../platform/errors.ts';
import type { Guard } from './guard.ts';
import { ProcessTree } from './process-tree.ts';
import { tailOf } from './stderr-tail.ts';

/** File descriptor of the bound socket in the user's program. */
export const LISTENER_FD = 3;
/** Waits for the guard before it executes the program. Without the guard, the program could outlive the executor. */
const LAUNCHER = 'read -r -u 4 word || exit 125; exec 4<&-; exec /bin/bash -c "$1"';
const COMMAND_NOT_FOUND = 127;
/** Exit code that is reported for a program that could not be prepared. Bash uses 126 and 127 for commands. */
export const START_FAILED = 125;
const DEFAULT_GRACE_MS = 3_000;
const REST_POLL_MS = 50;
const KILL_ROUNDS = 3;

export interface ProgramOptions {
  readonly command: string;
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly stdout: string;
  readonly stderr: string;
  /** Descriptor of the bound socket, which the program inherits as `LISTENER_FD`; null if the program inherits none. */
  readonly listener: number | null;
  readonly guard: Guard;
  /** The command runs when this promise has resolved. If it rejects, the program is killed. */
  readonly ready?: Promise<unknown>;
  /** Grace period in ms for the last checkpoint after a gentle kill. */
  readonly graceMs?: number;
}

export interface ProgramEnd {
  /** Exit code; -1 if a signal ended the program. */
  readonly code: number;
  readonly signal: string;
  readonly stderrTail: string;
}

/** The user's program. It runs in its own session. All of its processes are killed when it ends. */
export class Program {
  readonly pid: number;
  readonly tree: ProcessTree;
  /** Resolves when the program has ended and SIGKILL has been sent to its remaining processes. */
  readonly ended: Promise<ProgramEnd>;
  readonly #graceMs: number;
  /** End of a gentle kill's grace period, as a `performance.now()` time. */
  #graceEnds = 0;
  #alive = true;

  private constructor(pid: number, ended: Promise<ProgramEnd>, graceMs: number) {
    this.pid = pid;
    this.#graceMs = graceMs;
    this.tree = new ProcessTree(pid, performance.now());
    this.ended = ended;
  }

  /** Starts the program. If this fails, returns exit code 127 and appends the reason to the program's stderr. */
  static async start(options: ProgramOptions): Promise<Program | ProgramEnd> {
    const stdout = openSync(options.stdout, 'a');
    const stderr = openSync(options.stderr, 'a');
    const from = fstatSync(stderr).size;
    let child: ChildProcess;
    try {
      child = spawn('/bin/bash', ['-c', LAUNCHER, 'bash', options.command], {
        cwd: options.folder,
        env: options.environment,
        detached: true,
        stdio: ['ignore', stdout, stderr, options.listener ?? 'ignore', 'pipe'],
      });
      await spawned(child);
    } catch (error) {
      writeSync(stderr, `The program could not be started in ${options.folder}: ${messageOf(error)}\n`);
      return { code: COMMAND_NOT_FOUND, signal: '', stderrTail: await tailOf(options.stderr, from) };
    } finally {
      closeSync(stdout);
      closeSync(stderr);
    }
    const pid = child.pid as number;
    let program: Program | null = null;
    const ended = new Promise<ProgramEnd>((resolve) => {
      child.once('exit', async (code, signal) => {
        if (program !== null) {
          await program.#endRest();
        }
        void options.guard.watch(null).catch(() => {});
        resolve({ code: code ?? -1, signal: signal ?? '', stderrTail: await tailOf(options.stderr, from) });
      });
    });
    program = new Program(pid, ended, options.graceMs ?? DEFAULT_GRACE_MS);
    const word = child.stdio[4] as NodeJS.WritableStream;
    word.on('error', () => {});
    try {
      await options.guard.watch(pid);
    } catch (error) {
      program.kill(false);
      throw error;
    }
    (options.ready ?? Promise.resolve()).then(
      () => word.end('go\n'),
      () => program.kill(false),
    );
    return program;
  }

  /**
   * Sends SIGKILL. With `gently`, first sends SIGTERM and waits for the grace period. Also sends SIGCONT, because the program may be
   * suspended.
   */
  kill(gently: boolean): void {
    if (!this.#alive) {
      return;
    }
    if (gently) {
      this.#graceEnds = performance.now() + this.#graceMs;
      this.#signal('SIGTERM');
      this.#signal('SIGCONT');
      setTimeout(() => this.kill(false), this.#graceMs).unref();
      return;
    }
    this.#graceEnds = 0;
    this.#signal('SIGKILL');
  }

  /**
   * Kills the remaining processes after the program's exit, because they would keep the task's GPU and port in use. After a gentle kill,
   * they may run until the end of the grace period. A shell exits immediately on SIGTERM, while its child process may still be writing the
   * last checkpoint.
   */
  async #endRest(): Promise<void> {
    while (performance.now() < this.#graceEnds && this.tree.members().length > 0) {
      await pause(REST_POLL_MS);
    }
    // A process may fork between the search and the signal.
    for (let round = 0; round < KILL_ROUNDS && (round === 0 || this.tree.members().length > 0); round++) {
      this.#signal('SIGKILL');
    }
    this.#alive = false;
  }

  /** Sends the signal to the process group, then to the processes that have left the group. */
  #signal(signal: NodeJS.Signals): void {
    const outside = this.tree.membersOutsideGroup();
    killQuietly(-this.pid, signal);
    for (const pid of outside) {
      killQuietly(pid, signal);
    }
  }
}

function spawned(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
}

function killQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // The process has already ended.
  }
}
