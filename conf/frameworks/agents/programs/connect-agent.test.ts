import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { Channel } from '../../../../contract/connections/channel.ts';
import { acceptNeighbour } from '../../../../contract/connections/connect.ts';
import { spy } from '../../../../contract/testing/spy.ts';
import { agentIdentity, connectAgent } from './connect-agent.ts';
import { MessageReader, sendMessage } from './messages.ts';

const KEY = randomBytes(32);

interface Connected {
  readonly agent: Channel;
  readonly answers: unknown[];
  readonly lost: string[];
}

/** Connects rank 0 to rank 1's agent. @param onChunk may change the data that the agent sends */
async function connected(onChunk: (chunk: Buffer) => void = () => {}): Promise<Connected> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const port = await spy((server.address() as { port: number }).port, (chunk, fromRank0) => fromRank0 || onChunk(chunk));
  const gang = {
    generation: 1,
    taskWorldSize: 2,
    ringKey: KEY.toString('base64'),
    members: [{ role: 'worker', index: 1, host: '127.0.0.1', port, taskRank: 1 }],
  };
  const answers: unknown[] = [];
  const lost: string[] = [];
  const events = { onAnswer: (answer: unknown) => answers.push(answer), onLost: (cause: string) => lost.push(cause) };
  const [agent] = await Promise.all([
    acceptNeighbour(server, KEY, agentIdentity(gang, 1), AbortSignal.timeout(20_000), () => {}),
    connectAgent(gang, 1, events, 20_000).then(({ socket }) => onTestFinished(() => void socket.destroy())),
  ]);
  agent.watch(() => {});
  agent.read(
    new MessageReader(
      () => {},
      () => {},
    ),
  );
  onTestFinished(() => void agent.socket.destroy());
  return { agent, answers, lost };
}

test('reports an agent that ends', async () => {
  const { agent, answers, lost } = await connected();
  sendMessage(agent, { type: 'ended', code: 3 });
  await expect.poll(() => answers).toEqual([{ type: 'ended', code: 3 }]);
  agent.socket.destroy();
  await expect.poll(() => lost).toEqual(['rank 1 closed the connection']);
});

test('reports data that was changed on the network', async () => {
  let armed = false;
  const { agent, lost } = await connected((chunk) => {
    if (armed) {
      chunk[0] = (chunk[0] as number) ^ 1;
    }
  });
  armed = true;
  sendMessage(agent, { type: 'ended', code: 3 });
  await expect.poll(() => lost, { timeout: 5_000 }).toEqual([expect.stringMatching(/^WIRE_INVALID: rank 1 sent data that was modified/)]);
});

test('reports invalid data', async () => {
  const { agent, lost } = await connected();
  agent.write(Buffer.from([0, 0, 0, 1, 0x7b]));
  await expect.poll(() => lost).toEqual(['rank 1 sent a message that is not JSON']);
});

test('an agent that cannot be reached is reported with the last error', async () => {
  const member = { role: 'worker', index: 1, host: '127.0.0.1', port: 1, taskRank: 1 };
  const gang = { generation: 1, taskWorldSize: 2, ringKey: '', members: [member] };
  await expect(connectAgent(gang, 1, { onLost: () => {} }, 200)).rejects.toMatchObject({
    code: 'RING_JOIN_FAILED',
    message: expect.stringMatching(/^rank 1 did not accept a connection within 0\.2 s: 127\.0\.0\.1:1 could not be reached/),
  });
});
