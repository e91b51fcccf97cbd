import { execFile } from 'node:child_process';
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
 * @throws TonyError KERBEROS_TOOL_NOT_FOUND if the program is missing, KERBEROS_FAILED if the program takes longer than 30 s
 */
export function runSystemProgram(program: string, args: readonly string[], environment: NodeJS.ProcessEnv): Promise<ToolResult> {
  const options = {
    env: { ...environment, LC_ALL: 'C', TZ: 'UTC' },
    timeout: LIMIT_MS,
    killSignal: 'SIGKILL',
    maxBuffer: MAXIMUM_OUTPUT_BYTES,
  } as const;
  return new Promise((resolve, reject) => {
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      if (child.signalCode === 'SIGKILL') {
        reject(new TonyError('KERBEROS_FAILED', `${program} did not exit within ${LIMIT_MS / 1000} s.`));
      } else if (error?.code === 'ENOENT' || error?.code === 'EACCES') {
        reject(new TonyError('KERBEROS_TOOL_NOT_FOUND', `The program ${program} was not found on this machine.`, { cause: error }));
      } else if (typeof error?.code === 'string') {
        reject(new TonyError('KERBEROS_FAILED', `${program} did not start: ${error.message}.`, { cause: error }));
      } else {
        resolve({ exitCode: child.exitCode, stdout, stderr });
      }
    });
    child.stdin?.end();
  });
}
