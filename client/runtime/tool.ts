import { spawn } from 'node:child_process';
import { anySignal } from '../../platform/async/any-signal.ts';
import { TonyError } from '../../platform/errors.ts';

export interface ToolCall {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly timeoutMs: number;
}

/** Replaces user names and passwords in URLs with asterisks. pip hides passwords in most of its messages, but not in all. */
export function withoutLogins(text: string): string {
  return text.replace(/(\w:\/\/)[^\s/@"'<>]+@/g, '$1***@');
}

/** Thrown if a program fails, is killed or times out. `log` contains the end of its output. */
export class ToolFailure extends Error {
  override readonly name = 'ToolFailure';
  readonly log: string;

  constructor(message: string, log: string) {
    super(message);
    this.log = withoutLogins(log);
  }

  /** Returns the last lines of the output, which usually contain the cause of a failure. Omits lines that match `omitted`. */
  lastLines(count: number, omitted: RegExp = /^\s*$/): string {
    return this.log
      .split('\n')
      .filter((line) => line.trim() !== '' && !omitted.test(line))
      .slice(-count)
      .map((line) => `  ${line}`)
      .join('\n');
  }
}

const LOG_LIMIT = 64 * 1024;

/** Like `runTool`, but converts a ToolFailure to the error that `explain` returns. */
export async function runExplained(call: ToolCall, explain: (failure: ToolFailure) => TonyError): Promise<void> {
  try {
    await runTool(call);
  } catch (error) {
    throw error instanceof ToolFailure ? explain(error) : error;
  }
}

/**
 * Runs a program with an empty stdin, and waits for it to exit.
 * @throws TonyError RUNTIME_TOOL_NOT_FOUND if the program is not installed; ToolFailure if it fails or times out
 */
export async function runTool(call: ToolCall): Promise<void> {
  const child = spawn(call.command, call.args, {
    cwd: call.cwd,
    env: { ...process.env, ...call.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal: anySignal([...(call.signal ? [call.signal] : []), AbortSignal.timeout(call.timeoutMs)]),
    killSignal: 'SIGKILL',
  });
  let log = '';
  const keep = (text: string) => {
    log = (log + text).slice(-LOG_LIMIT);
  };
  child.stdout.setEncoding('utf8').on('data', keep);
  child.stderr.setEncoding('utf8').on('data', keep);
  return new Promise((resolve, reject) => {
    child.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') {
        reject(new TonyError('RUNTIME_TOOL_NOT_FOUND', `${call.command} is not installed (or not on the PATH)`));
      } else if (error.name === 'AbortError') {
        reject(new ToolFailure(`${call.command} was aborted, or exceeded its time limit of ${call.timeoutMs / 1000} s`, log));
      } else {
        reject(error);
      }
    });
    child.once('close', (code, signal) => {
      if (code === 0) {
        resolve();
      } else {
        reject(new ToolFailure(`${call.command} ${signal === null ? `exited with code ${code}` : `was killed by ${signal}`}`, log));
      }
    });
  });
}
