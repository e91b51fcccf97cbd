import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { lastErrorLine } from '../../conf/status/last-error-line.ts';
import { messageOf } from '../../platform/errors.ts';
import { type GuardedOptions, GuardedProcess, type ProcessEnd } from '../processes/guarded-process.ts';
import type { ProcessTree } from '../processes/process-tree.ts';

const MAX_LINES = 20;
const MAX_BYTES = 4096;
/** A progress bar may take many kilobytes of the file, although a terminal shows only its last state. */
const WINDOW_BYTES = 256 * 1024;

/**
 * Returns the last lines that were written to a file after offset `from`. Shortens paths to files in `folder` to relative paths. Returns an
 * empty string if there are no lines or the file cannot be read.
 */
export async function tailOf(file: string, from: number, folder: string): Promise<string> {
  try {
    const handle = await open(file, 'r');
    try {
      const { size } = await handle.stat();
      const start = Math.max(from, size - WINDOW_BYTES);
      if (start >= size) {
        return '';
      }
      const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(size - start), position: start });
      return lastLines(buffer.subarray(0, bytesRead), start > from, folder);
    } finally {
      await handle.close();
    }
  } catch {
    return '';
  }
}

/** @param cut true if the bytes may begin in the middle of a line or character */
export function lastLines(bytes: Uint8Array, cut: boolean, folder: string): string {
  const text = withoutBrokenStart(Buffer.from(bytes).toString('utf8').trimEnd(), cut);
  const lines = shortened(text.split('\n').map(finalState).join('\n'), folder).split('\n').slice(-MAX_LINES).join('\n');
  const kept = Buffer.from(lines);
  return kept.length <= MAX_BYTES ? lines : withoutBrokenStart(kept.subarray(-MAX_BYTES).toString('utf8'), true);
}

function withoutBrokenStart(text: string, cut: boolean): string {
  const firstBreak = text.indexOf('\n');
  return !cut ? text : firstBreak >= 0 ? text.slice(firstBreak + 1) : text.replace(/^\uFFFD+/, '');
}

/** Returns what a terminal shows of a line: each carriage return starts the line anew. */
function finalState(line: string): string {
  return line.trimEnd().split('\r').at(-1) ?? '';
}

/** Matches the folders above node_modules or the training library. Their long names do not help the user. */
const LIBRARY = String.raw`(?:file://)?/\S*?/(?=node_modules/|tony/training\.mjs)`;
/** Matches the line of a library's source code that Node.js prints above an uncaught error. */
const LIBRARY_SOURCE = new RegExp(String.raw`^${LIBRARY}\S+:\d+\n.*\n[ \t]*\^+\n+`, 'm');
const NODE_VERSION = /\nNode\.js v[\d.]+$/;

function shortened(text: string, folder: string): string {
  return text
    .replace(LIBRARY_SOURCE, '')
    .replace(NODE_VERSION, '')
    .trimEnd()
    .replaceAll(new RegExp(LIBRARY, 'g'), '')
    .replaceAll(`file://${folder}/`, '')
    .replaceAll(`${folder}/`, '');
}

/** File descriptor that the bound socket has in the user's program. */
export const LISTENER_FD = 3;
/** Exit code to report if a program could not be prepared. Bash uses 126 and 127 for commands that cannot be run. */
export const START_FAILED = 125;
const TOO_BIG =
  'Linux limits each environment variable and the command to 128 KiB, and all of them together to a quarter of the stack size limit (E2BIG). Write large values to a file in the source folder.';

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
  /** True if a restart would repeat the failure. */
  readonly permanent?: boolean;
}

/** Classes of the errors that end a Python program if it, or a module that it imports, cannot be loaded. */
const LOAD_ERRORS = ['ModuleNotFoundError', 'ImportError', 'SyntaxError', 'IndentationError', 'TabError'];

/**
 * Returns true if a Python program, or a module that it imports, does not exist or could not be loaded. A restart would repeat the
 * failure.
 */
export function isFailedLoad({ code, stderrTail }: EndedProgram): boolean {
  const last = lastErrorLine(stderrTail.split('\n'));
  // The interpreter prints this if the program's file does not exist.
  const isMissing = last.includes(": can't open file '") && last.includes("': [Errno 2] ");
  return code > 0 && (isMissing || LOAD_ERRORS.some((name) => last.startsWith(`${name}: `)));
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

  /** Starts the program. If this fails, appends the reason to the program's stderr, and returns the exit code START_FAILED. */
  static async start({ command, listener, stdout: output, stderr: errors, ...options }: ProgramOptions): Promise<Program | EndedProgram> {
    const stdout = openSync(output, 'a');
    const stderr = openSync(errors, 'a');
    const from = fstatSync(stderr).size;
    try {
      const words = ['/bin/bash', '-c', command];
      const process = await GuardedProcess.start({
        ...options,
        endsDaemons: true,
        words,
        stdio: ['ignore', stdout, stderr, listener ?? 'ignore'],
      });
      return new Program(
        process,
        process.ended.then(async (end) => ({ ...end, stderrTail: await tailOf(errors, from, options.folder) })),
      );
    } catch (error) {
      if ((error as NodeJS.ErrnoException).syscall?.startsWith('spawn') !== true) {
        throw error;
      }
      const isTooBig = (error as NodeJS.ErrnoException).code === 'E2BIG';
      writeSync(stderr, `The program could not be started in ${options.folder}: ${isTooBig ? TOO_BIG : messageOf(error)}\n`);
      return { code: START_FAILED, signal: '', stderrTail: await tailOf(errors, from, options.folder), permanent: isTooBig };
    } finally {
      closeSync(stdout);
      closeSync(stderr);
    }
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** Time at which the program failed, as measured by `performance.now()`, or null if it has not failed. */
  get failedAt(): number | null {
    return this.#process.failedAt;
  }

  get tree(): ProcessTree {
    return this.#process.tree;
  }

  /** Sends SIGKILL. With `gently`, first sends SIGTERM and waits until the grace period has ended. */
  kill(gently: boolean): void {
    this.#process.kill(gently);
  }
}
