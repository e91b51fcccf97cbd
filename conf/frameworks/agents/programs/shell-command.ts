import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';

/** Starts a bash command. The command's output becomes part of the task's output. */
export function startCommand(command: string, env: NodeJS.ProcessEnv = process.env, cwd = process.cwd()): ChildProcess {
  return spawn('/bin/bash', ['-c', command], { env, cwd, stdio: ['ignore', 'inherit', 'inherit'] });
}

/** Resolves with the exit code that a shell would report. */
export function exitCodeOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve) => {
    child.once('error', (error) => {
      console.error(error.message);
      resolve(127);
    });
    child.once('exit', (code, signal) => resolve(code ?? (signal === null ? 1 : 128 + constants.signals[signal])));
  });
}
