import { type ExecFileOptions, execFile, type PromiseWithChild } from 'node:child_process';
import { promisify } from 'node:util';
import { PROGRAM_HANGS_MS } from './until.ts';

/** Maximum size of a program's output. Spark draws a bar of its progress on stderr. */
const MOST_OUTPUT_BYTES = 64 * 1024 * 1024;

/**
 * Runs a program, and returns its output. A program that hangs is killed before its test ends.
 * @throws if the program fails or hangs; the message contains stderr
 */
export function execute(
  file: string,
  args: readonly string[] = [],
  options: ExecFileOptions = {},
): PromiseWithChild<{ stdout: string; stderr: string }> {
  const limits = { timeout: PROGRAM_HANGS_MS, killSignal: 'SIGKILL', maxBuffer: MOST_OUTPUT_BYTES } as const;
  return promisify(execFile)(file, args, { ...limits, ...options, encoding: 'utf8' });
}
