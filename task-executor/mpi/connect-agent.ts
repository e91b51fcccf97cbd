import type { Channel } from '../../training/connections/channel.ts';
import { dialNeighbour } from '../../training/connections/connect.ts';
import type { Identity } from '../../training/connections/handshake.ts';
import type { TaskContext } from '../../training/process/task-context.ts';
import { type AgentAnswer, MessageReader } from './messages.ts';

type Gang = Pick<TaskContext, 'generation' | 'worldSize' | 'members' | 'ringKey'>;

/** Only rank 0 connects to the agents. The connections are always encrypted, even if the traffic of MPI is not. */
export function agentIdentity({ generation, worldSize }: Gang, rank: number): Identity {
  return { generation, worldSize, from: 0, to: rank, security: 'encrypted' };
}

/**
 * Connects rank 0 to the agent of another rank, and retries until the agent listens.
 * @param onAnswer receives the agent's answers.
 * @throws TonyError RING_JOIN_FAILED if `signal` aborts first.
 */
export async function connectAgent(
  task: Gang,
  rank: number,
  onAnswer: (answer: AgentAnswer) => void,
  signal: AbortSignal,
): Promise<Channel> {
  const member = task.members.find((each) => each.rank === rank);
  if (member === undefined) {
    throw new Error(`the gang has no rank ${rank}`);
  }
  let channel: Channel | null = null;
  const reader = new MessageReader<AgentAnswer>(onAnswer, () => channel?.socket.destroy());
  const key = Buffer.from(task.ringKey, 'base64');
  channel = await dialNeighbour(member, key, agentIdentity(task, rank), reader, signal, () => {});
  channel.socket.on('error', () => {});
  return channel;
}
