import type { Channel } from '../../../../contract/connections/channel.ts';
import type { TaskContext } from '../../../../contract/process/task-context.ts';
import { connectAgent } from './connect-agent.ts';
import { sendMessage } from './messages.ts';

/** Timeout in ms for the connections to all agents. All programs in a gang start at about the same time. */
const CONNECT_MS = 120_000;
/** Maximum time in ms to wait for the agents to exit. Must be longer than the time for which the agents wait for their commands. */
const END_MS = 10_000;

/**
 * Runs an action in rank 0's task, once the agents in all other tasks are ready.
 * @param action runs the user's command, and returns its exit code. The agents exit with 0 if it is 0
 * @returns the exit code
 */
export async function withAgents(task: TaskContext, action: () => Promise<number>): Promise<number> {
  let isEnding = false;
  const onLost = (cause: string): void => {
    if (!isEnding) {
      console.error(cause);
    }
  };
  const channels = await Promise.all(otherRanks(task).map((rank) => join(task, rank, onLost)));
  // Ignore the signal, because the command also receives it and may store a checkpoint before it exits.
  process.on('SIGTERM', () => {});
  const code = await action();
  isEnding = true;
  if (code === 0) {
    await Promise.all(channels.map(end));
  }
  return code;
}

/** Returns the ranks of the tasks with agents. */
export function otherRanks({ members }: TaskContext): number[] {
  return members.flatMap(({ taskRank }) => (taskRank === null || taskRank === 0 ? [] : [taskRank]));
}

async function join(task: TaskContext, rank: number, onLost: (cause: string) => void): Promise<Channel> {
  const channel = await connectAgent(task, rank, { onLost }, CONNECT_MS);
  sendMessage(channel, { type: 'join' });
  return channel;
}

/** Resolves when the agent has ended. */
function end(channel: Channel): Promise<void> {
  return new Promise((resolve) => {
    channel.socket.once('close', () => resolve());
    setTimeout(resolve, END_MS).unref();
    sendMessage(channel, { type: 'end' });
  });
}
