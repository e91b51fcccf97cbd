import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { messageOf } from '../conf/errors.ts';
import type { Guard } from './guard.ts';
import { ProcessTree } from './process-tree.ts';
import { tailOf } from './stderr-tail.ts';

/** The descriptor at which the user's program inherits its listening socket. */
export const LISTENER_FD = 3;
/** Waits for the word that the guard knows of it, so that no moment is left in which it could outlive this process; then becomes the program. */
const LAUNCHER = 'read -r -u 4 word || exit 125; exec 4<&-; exec /bin/bash -c "$1"';
const COMMAND_NOT_FOUND = 127;
const DEFAULT_GRACE_MS = 3_000;

export interface ProgramOptions {
  /** For bash. */
  readonly command: string;
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Files to append to. */
  readonly stdout: string;
  readonly stderr: string;
  /** Descriptor of a listening socket; the program gets it as LISTENER_FD. */
  readonly listener: number;
  readonly guard: Guard;
  /** How long it may take for a last checkpoint when it is ended gently. */
  readonly graceMs?: number;
}

export interface ProgramEnd {
  /** -1 when a signal ended it. */
  readonly code: number;
  readonly signal: string;
  /** The last lines of its own stderr. */
  readonly stderrTail: string;
}

/** The user's program: a process group and session of its own, gone as a whole when it ends. */
export class Program {
  readonly pid: number;
  readonly tree: ProcessTree;
  /** Resolves when the program and all of its group are gone. */
  readonly ended: Promise<ProgramEnd>;
  readonly #graceMs: number;
  #alive = true;

  private constructor(pid: number, ended: Promise<ProgramEnd>, graceMs: number) {
    this.pid = pid;
    this.#graceMs = graceMs;
    this.tree = new ProcessTree(pid, performance.now());
    this.ended = ended;
  }

  /** A program that cannot even be started has ended with 127, and its stderr says why. */
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
      child.once('exit', (code, signal) => {
        // What it left behind would hold its GPU and its port.
        killGroup(pid, 'SIGKILL');
        if (program !== null) program.#alive = false;
        void options.guard.watch(null).catch(() => {});
        void tailOf(options.stderr, from).then((stderrTail) => resolve({ code: code ?? -1, signal: signal ?? '', stderrTail }));
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

  /** Gently: SIGTERM first, which reaches a stopped program too. */
  kill(gently: boolean): void {
    if (!this.#alive) return;
    if (gently) {
      killGroup(this.pid, 'SIGTERM');
      killGroup(this.pid, 'SIGCONT');
      setTimeout(() => this.kill(false), this.#graceMs).unref();
      return;
    }
    // Those that left the group are not in it.
    const members = this.tree.members();
    killGroup(this.pid, 'SIGKILL');
    for (const pid of members) killQuietly(pid, 'SIGKILL');
  }
}

function spawned(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
}

function killGroup(group: number, signal: NodeJS.Signals): void {
  killQuietly(-group, signal);
}

function killQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It is gone already.
  }
}
