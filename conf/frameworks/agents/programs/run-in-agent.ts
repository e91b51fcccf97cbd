import type { TaskContext } from '../../../../contract/process/task-context.ts';
import { connectAgent } from './connect-agent.ts';
import { sendMessage } from './messages.ts';

const CONNECT_MS = 60_000;
/** Exit code of a command whose agent is lost. ssh uses the same code for its own failures. */
export const FAILED = 255;

/**
 * Runs a bash command in the task with this rank.
 * @param folder relative to the task's folder
 * @param onLost called if the connection to the agent ends before the command, with a sentence that names the rank
 * @returns the command's exit code, or FAILED
 * @throws TonyError RING_JOIN_FAILED
 */
export async function runInAgent(
  task: TaskContext,
  rank: number,
  { command, folder }: { readonly command: string; readonly folder: string },
  onLost: (cause: string) => void,
): Promise<number> {
  let resolve: (code: number) => void = () => {};
  const ended = new Promise<number>((settle) => (resolve = settle));
  const lose = (cause: string): void => {
    onLost(cause);
    resolve(FAILED);
  };
  const channel = await connectAgent(task, rank, { onAnswer: ({ code }) => resolve(code), onLost: lose }, CONNECT_MS);
  sendMessage(channel, { type: 'run', command, folder });
  return await ended;
}
