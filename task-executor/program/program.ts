import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { messageOf } from '../../platform/errors.ts';
import { type GuardedOptions, GuardedProcess, type ProcessEnd } from '../processes/guarded-process.ts';
import type { ProcessTree } from '../processes/process-tree.ts';
import { tailOf } from './stderr-tail.ts';

/** File descriptor that the bound socket has in the user's program. */
export const LISTENER_FD = 3;
const COMMAND_NOT_FOUND = 127;
/** Exit code to report if a program could not be prepared. Bash uses 126 and 127 for commands that cannot be run. */
export const START_FAILED = 125;

export interface ProgramOptions extends Pick<GuardedOptions, 'folder' | 'environment' | 'guard' | 'ready'> {
  readonly command: string;
  readonly stdout: string;
  readonly stderr: string;
  /** Descriptor of the bound socket, which the program inherits as `LISTENER_FD`. Null if the program does not inherit a socket. */
  readonly listener: number | null;
  /** Grace period in ms in which a program can store a last checkpoint after a gentle kill. */
  readonly graceMs?: number;
}

export interface EndedProgram extends ProcessEnd {
  readonly stderrTail: string;
}

/** The user's program in its own session. When the program exits, all of its processes are killed. */
export class Program {
  readonly #process: GuardedProcess;
  /** Resolves when the program has exited and SIGKILL has been sent to its remaining processes. */
  readonly ended: Promise<EndedProgram>;

  private constructor(process: GuardedProcess, ended: Promise<EndedProgram>) {
    this.#process = process;
    this.ended = ended;
  }

  /** Starts the program. If this fails, appends the reason to the program's stderr and returns a ProgramEnd with exit code 127. */
  static async start({ command, listener, stdout: output, stderr: errors, ...options }: ProgramOptions): Promise<Program | EndedProgram> {
    const stdout = openSync(output, 'a');
    const stderr = openSync(errors, 'a');
    const from = fstatSync(stderr).size;
    try {
      const words = ['/bin/bash', '-c', command];
      const process = await GuardedProcess.start({ ...options, words, stdio: ['ignore', stdout, stderr, listener ?? 'ignore'] });
      return new Program(
        process,
        process.ended.then(async (end) => ({ ...end, stderrTail: await tailOf(errors, from, options.folder) })),
      );
    } catch (error) {
      if ((error as NodeJS.ErrnoException).syscall?.startsWith('spawn') !== true) {
        throw error;
      }
      writeSync(stderr, `The program could not be started in ${options.folder}: ${messageOf(error)}\n`);
      return { code: COMMAND_NOT_FOUND, signal: '', stderrTail: await tailOf(errors, from, options.folder) };
    } finally {
      closeSync(stdout);
      closeSync(stderr);
    }
  }

  get pid(): number {
    return this.#process.pid;
  }

  get tree(): ProcessTree {
    return this.#process.tree;
  }

  /** Sends SIGKILL. With `gently`, first sends SIGTERM and waits until the grace period has ended. */
  kill(gently: boolean): void {
    this.#process.kill(gently);
  }
}
