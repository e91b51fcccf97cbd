import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { pause } from '../../platform/async/backoff.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import type { Guard } from './guard.ts';
import { ProcessTree } from './process-tree.ts';

/**
 * Shell script that waits until the guard is ready and then executes the script's arguments. Without the guard, the process could outlive
 * the executor.
 */
const LAUNCHER = 'read -r -u 4 word || exit 125; exec 4<&-; exec "$@"';
/** The launcher waits for the guard on WORD_FD. A process in a terminal reports its ID on LEADER_FD. */
const WORD_FD = 4;
const LEADER_FD = 5;
/** Timeout in ms for a process in a terminal to report its ID. */
const LEADER_MS = 10_000;
const DEFAULT_GRACE_MS = 3_000;
const REST_POLL_MS = 50;
const KILL_ROUNDS = 3;

export interface GuardedOptions {
  /** Program and arguments. */
  readonly words: readonly string[];
  /** Standard streams, and descriptor 3. */
  readonly stdio: readonly ['ignore' | 'pipe', number | 'pipe', number | 'pipe', number | 'ignore'];
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly guard: Guard;
  /** The command runs after this promise has resolved. If the promise rejects, the process is killed. */
  readonly ready?: Promise<unknown>;
  /** Grace period in ms after a gentle kill. */
  readonly graceMs?: number;
  /** True if all processes that inherit this process's environment end with it, even those with their own session. */
  readonly endsDaemons?: boolean;
  /**
   * Returns the command that runs the launcher in a terminal, as the leader of the terminal's session. Null if the launcher must run
   * directly.
   */
  readonly inTerminal?: ((launcher: readonly string[]) => readonly string[]) | null;
}

export interface ProcessEnd {
  /** Exit code, or -1 if a signal ended the process. */
  readonly code: number;
  readonly signal: string;
}

/** Name of the environment variable that marks a process's descendants. */
export const PROGRAM_MARKER = 'TONY_PROGRAM_ID';

/** A process with its own session. When the process or the executor exits, all of the session's processes are killed. */
export class GuardedProcess {
  readonly pid: number;
  readonly tree: ProcessTree;
  readonly child: ChildProcess;
  /** Resolves when the process has exited and SIGKILL has been sent to its session's remaining processes. */
  readonly ended: Promise<ProcessEnd>;
  /** Time at which the process failed, as measured by `performance.now()`. Null while it is running, and after a success. */
  failedAt: number | null = null;
  readonly #graceMs: number;
  readonly #gentleSignal: NodeJS.Signals;
  /** Time at which the grace period after a gentle kill ends, as measured by `performance.now()`. */
  #graceEnds = 0;
  #alive = true;

  private constructor(child: ChildProcess, pid: number, options: GuardedOptions, marker: string | null) {
    this.child = child;
    this.pid = pid;
    this.#graceMs = options.graceMs ?? DEFAULT_GRACE_MS;
    // Interactive shells ignore SIGTERM.
    this.#gentleSignal = options.inTerminal ? 'SIGHUP' : 'SIGTERM';
    this.tree = new ProcessTree(pid, performance.now(), marker);
    this.ended = exitOf(child).then(async (end) => {
      this.failedAt = end.code === 0 ? null : performance.now();
      await this.#endRest();
      void options.guard.watch(null).catch(() => {});
      return end;
    });
  }

  /** @throws if the process cannot be started */
  static async start(options: GuardedOptions): Promise<GuardedProcess> {
    const { inTerminal = null, words, folder, endsDaemons = false } = options;
    const id = endsDaemons ? randomUUID() : null;
    const environment = id === null ? options.environment : { ...options.environment, [PROGRAM_MARKER]: id };
    const marker = id === null ? null : `${PROGRAM_MARKER}=${id}`;
    const script = inTerminal === null ? LAUNCHER : `echo $$ >&${LEADER_FD}; exec ${LEADER_FD}>&-; ${LAUNCHER}`;
    const launcher = ['/bin/bash', '-c', script, 'bash', ...words];
    const [file = '', ...rest] = inTerminal?.(launcher) ?? launcher;
    const stdio: StdioOptions = [...options.stdio, 'pipe', inTerminal === null ? 'ignore' : 'pipe'];
    const child = spawn(file, rest, { cwd: folder, env: environment, detached: true, stdio });
    await once(child, 'spawn');
    const word = child.stdio[WORD_FD] as Writable;
    word.on('error', () => {});
    let guarded: GuardedProcess | null = null;
    try {
      const pid =
        inTerminal === null ? (child.pid as number) : await reportedLeader((child.stdio as readonly unknown[])[LEADER_FD] as Readable);
      const process = new GuardedProcess(child, pid, options, marker);
      guarded = process;
      await options.guard.watch(pid, marker);
      (options.ready ?? Promise.resolve()).then(
        () => word.end('go\n'),
        () => process.kill(false),
      );
      return process;
    } catch (error) {
      child.kill('SIGKILL');
      guarded?.kill(false);
      throw error;
    }
  }

  /**
   * Sends SIGKILL. With `gently`, first sends SIGTERM (SIGHUP in a terminal) and waits until the grace period has ended. Also sends
   * SIGCONT, because a suspended process does not handle signals.
   */
  kill(gently: boolean): void {
    if (!this.#alive) {
      return;
    }
    if (gently) {
      // A second order does not extend the grace period.
      if (this.#graceEnds > 0) {
        return;
      }
      this.#graceEnds = performance.now() + this.#graceMs;
      this.#signal(this.#gentleSignal);
      this.#signal('SIGCONT');
      setTimeout(() => this.kill(false), this.#graceMs).unref();
      return;
    }
    this.#graceEnds = 0;
    this.#signal('SIGKILL');
  }

  /**
   * Kills the processes that are still running after the main process has exited, because they would keep using the task's GPU and port.
   * After a gentle kill, first waits until the grace period has ended: if a shell exits on SIGTERM, its child process may still be writing
   * the last checkpoint.
   */
  async #endRest(): Promise<void> {
    while (performance.now() < this.#graceEnds && this.tree.members().length > 0) {
      await pause(REST_POLL_MS);
    }
    // Repeat the search, because a process may fork between the search and the signal.
    for (let round = 0; round < KILL_ROUNDS && (round === 0 || this.tree.members().length > 0); round++) {
      this.#signal('SIGKILL');
    }
    for (let round = 0, left = this.tree.marked(); round < KILL_ROUNDS && left.length > 0; round++, left = this.tree.marked()) {
      for (const pid of left) {
        killQuietly(pid, 'SIGKILL');
      }
    }
    this.#alive = false;
  }

  /** Sends the signal to the process group and to the processes that have left the group. */
  #signal(signal: NodeJS.Signals): void {
    const outside = this.tree.membersOutsideGroup();
    killQuietly(-this.pid, signal);
    for (const pid of outside) {
      killQuietly(pid, signal);
    }
  }
}

function exitOf(child: ChildProcess): Promise<ProcessEnd> {
  return new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code: code ?? -1, signal: signal ?? '' })));
}

/** Reads the process ID that the launcher in a terminal reports. */
async function reportedLeader(pipe: Readable): Promise<number> {
  const text = await withTimeout(
    (async () => {
      let read = '';
      // Do not wait until the pipe is closed, because the program that runs the terminal keeps it open.
      for await (const chunk of pipe as AsyncIterable<Buffer>) {
        read += chunk.toString();
        if (read.includes('\n')) {
          break;
        }
      }
      return read;
    })(),
    LEADER_MS,
    () => '',
  );
  const pid = Number(text.trim());
  if (!Number.isInteger(pid) || pid < 2) {
    throw new Error('the terminal could not be started');
  }
  return pid;
}

function killQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // The process has already exited.
  }
}
