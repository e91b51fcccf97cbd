import type { Channel } from '../../../../contract/connections/channel.ts';
import { dialNeighbour } from '../../../../contract/connections/connect.ts';
import { connectAll } from '../../../../contract/connections/connect-all.ts';
import type { Identity } from '../../../../contract/connections/handshake.ts';
import type { TaskContext } from '../../../../contract/process/task-context.ts';
import { type AgentAnswer, MessageReader } from './messages.ts';

type Gang = Pick<TaskContext, 'generation' | 'taskWorldSize' | 'members' | 'ringKey'>;

export interface AgentEvents {
  readonly onAnswer?: (answer: AgentAnswer) => void;
  /** Called once, when the connection has ended. `cause` is a sentence that names the rank. */
  readonly onLost: (cause: string) => void;
}

/** Only rank 0 connects to the agents. These connections are always encrypted, even if MPI's own traffic is not. */
export function agentIdentity({ generation, taskWorldSize }: Gang, rank: number): Identity {
  return { generation, worldSize: taskWorldSize, from: 0, to: rank, security: 'encrypted' };
}

/**
 * Connects rank 0 to another rank's agent. Retries until the agent is listening.
 * @throws TonyError RING_JOIN_FAILED after `limitMs`, with the error from the last attempt
 */
export async function connectAgent(task: Gang, rank: number, events: AgentEvents, limitMs: number): Promise<Channel> {
  const member = task.members.find((each) => each.taskRank === rank);
  if (member === undefined) {
    throw new Error(`the gang has no rank ${rank}`);
  }
  let channel = null as Channel | null;
  const lose = once(events.onLost);
  const invalid = (reason: string): void => {
    lose(`rank ${rank} sent ${reason}`);
    channel?.socket.destroy();
  };
  const reader = new MessageReader<AgentAnswer>((answer) => events.onAnswer?.(answer), invalid);
  const key = Buffer.from(task.ringKey, 'base64');
  const connect = async (signal: AbortSignal, onRefused: (reason: string) => void): Promise<void> => {
    channel = await dialNeighbour(member, key, agentIdentity(task, rank), reader, signal, onRefused);
    watchPeer(channel, rank, lose);
  };
  await connectAll([{ name: `rank ${rank}`, connect }], limitMs, undefined, ([missing]) => {
    return `rank ${rank} did not accept a connection within ${limitMs / 1000} s: ${missing?.reason || 'no answer'}`;
  });
  return channel as Channel;
}

/** Calls `onLost` when a connection ends, with a sentence that names the peer's rank. */
export function watchPeer(channel: Channel, rank: number, onLost: (cause: string) => void): void {
  const lose = once(onLost);
  channel.watch((cause, code) => lose(`${code === 'PEER_LOST' ? '' : `${code}: `}rank ${rank} ${cause}`));
}

function once(action: (cause: string) => void): (cause: string) => void {
  let isDone = false;
  return (cause) => {
    if (!isDone) {
      isDone = true;
      action(cause);
    }
  };
}
