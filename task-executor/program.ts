import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { pause } from '../platform/backoff.ts';
import { messageOf } from '../platform/errors.ts';
import type { Guard } from './guard.ts';
import { ProcessTree } from './process-tree.ts';
import { tailOf } from './stderr-tail.ts';

/** The file descriptor through which the user's program inherits its listening socket. */
export const LISTENER_FD = 3;
/**
 * Blocks until the guard has registered the process group, because the program could otherwise outlive the executor; then executes the
 * program.
 */
const LAUNCHER = 'read -r -u 4 word || exit 125; exec 4<&-; exec /bin/bash -c "$1"';
const COMMAND_NOT_FOUND = 127;
const DEFAULT_GRACE_MS = 3_000;
const REST_POLL_MS = 50;
const KILL_ROUNDS = 3;

export interface ProgramOptions {
  /** A bash command. */
  readonly command: string;
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Files to append the output to. */
  readonly stdout: string;
  readonly stderr: string;
  /** Descriptor of a listening socket; the program gets it as `LISTENER_FD`. */
  readonly listener: number;
  readonly guard: Guard;
  /** How long a program that is ended gently may take to write its last checkpoint (ms). */
  readonly graceMs?: number;
}

export interface ProgramEnd {
  /** -1 if a signal ended the program. */
  readonly code: number;
  readonly signal: string;
  /** The last lines that this run wrote to stderr. */
  readonly stderrTail: string;
}

/** The user's program. It runs in its own session and is ended with all of its processes. */
export class Program {
  readonly pid: number;
  readonly tree: ProcessTree;
  /** Resolves when the program has ended and SIGKILL was sent to all processes it left behind. */
  readonly ended: Promise<ProgramEnd>;
  readonly #graceMs: number;
  /** When the grace period of a gentle kill ends, on the clock of `performance.now()`. */
  #graceEnds = 0;
  #alive = true;

  private constructor(pid: number, ended: Promise<ProgramEnd>, graceMs: number) {
    this.pid = pid;
    this.#graceMs = graceMs;
    this.tree = new ProcessTree(pid, performance.now());
    this.ended = ended;
  }

  /** Returns an end with code 127 if the program cannot be started; its stderr states the reason. */
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
        stdio: ['ignore', stdout, stderr, options.listener, 'pipe'],
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
      word.end('go\n');
    } catch (error) {
      program.kill(false);
      throw error;
    }
    return program;
  }

  /** Gently: sends SIGTERM, which also reaches a stopped program, then SIGKILL when the grace period is over. */
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
   * Ends the processes that a program leaves behind when it exits, because they would hold its GPU and its port. A shell exits on SIGTERM
   * at once while the command it waits for still writes the last checkpoint; during a gentle end the remaining processes therefore keep the
   * grace period.
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

  /** Signals the group, then the processes of the session or the tree that have left the group. */
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
