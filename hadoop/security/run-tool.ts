import { spawn } from 'node:child_process';
import { TonyError } from '../../platform/errors.ts';

const LIMIT_MS = 30_000;
const MAXIMUM_OUTPUT_BYTES = 4 * 1024 * 1024;

export interface ToolResult {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs an operating system program, such as a Kerberos tool, without a shell. The output is in English with times in UTC, and may contain
 * secrets.
 * @throws TonyError KERBEROS_TOOL_MISSING if the program is missing, KERBEROS_FAILED if the program takes longer than 30 s
 */
export function runTool(program: string, args: readonly string[], environment: NodeJS.ProcessEnv): Promise<ToolResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      env: { ...environment, LC_ALL: 'C', TZ: 'UTC' },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: LIMIT_MS,
      killSignal: 'SIGKILL',
    });
    const collected = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text: string) => {
        collected[name] += text;
        if (collected[name].length > MAXIMUM_OUTPUT_BYTES) {
          child.kill('SIGKILL');
        }
      });
    }
    child.once('error', (error: NodeJS.ErrnoException) => {
      const missing = error.code === 'ENOENT' || error.code === 'EACCES';
      reject(
        missing
          ? new TonyError('KERBEROS_TOOL_MISSING', `The program ${program} was not found on this machine.`, { cause: error })
          : new TonyError('KERBEROS_FAILED', `${program} did not start: ${error.message}.`, { cause: error }),
      );
    });
    child.once('close', (exitCode, signal) => {
      if (signal === 'SIGKILL') {
        reject(new TonyError('KERBEROS_FAILED', `${program} did not exit within ${LIMIT_MS / 1000} s.`));
      } else {
        resolve({ exitCode, ...collected });
      }
    });
  });
}
