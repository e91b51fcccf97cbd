import path from 'node:path';
import type { TaskContext } from '../../../../contract/process/task-context.ts';
import { isBelow } from '../../agents/programs/messages.ts';
import { FAILED, runInAgent } from '../../agents/programs/run-in-agent.ts';
import { rankOfNode } from '../mpirun.ts';

/** ssh options that are followed by a value. */
const WITH_VALUE: ReadonlySet<string> = new Set(['-l', '-p', '-o', '-i', '-F']);

export interface RemoteCommand {
  readonly rank: number;
  readonly command: string;
}

/**
 * Parses ssh arguments, `[OPTION ...] NAME COMMAND ...`, and ignores the options. Returns null if NAME is not a task or there is no
 * command.
 */
export function parseRemoteCommand(words: readonly string[]): RemoteCommand | null {
  let at = 0;
  while (words[at]?.startsWith('-')) {
    at += WITH_VALUE.has(words[at] ?? '') ? 2 : 1;
  }
  const rank = rankOfNode(words[at] ?? '');
  const command = words.slice(at + 1).join(' ');
  return rank === null || command === '' ? null : { rank, command };
}

/** Returns the path of `folder` relative to the task's folder. Returns '' if it is not below the task's folder. */
export function folderBelow(task: string, folder: string): string {
  const relative = path.relative(task, folder);
  return task !== '' && isBelow(relative) ? relative : '';
}

/**
 * Runs a command in another task, as ssh would.
 * @returns the command's exit code
 */
export async function runRemoteShell(task: TaskContext, words: readonly string[]): Promise<number> {
  const remote = parseRemoteCommand(words);
  if (remote === null) {
    console.error(`expected the name of a node in the host file and a command: ${words.join(' ')}`);
    return FAILED;
  }
  const { rank, command } = remote;
  const folder = folderBelow(process.env.TONY_MPI_FOLDER ?? '', process.cwd());
  return await runInAgent(task, rank, { command, folder }, console.error);
}
