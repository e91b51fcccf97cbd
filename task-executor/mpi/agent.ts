import { type ChildProcess, spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { constants } from 'node:os';
import type { Channel } from '../../training/connections/channel.ts';
import { IncomingHandshakes } from '../../training/connections/incoming-handshakes.ts';
import { openListener } from '../../training/connections/listener.ts';
import type { TaskContext } from '../../training/process/task-context.ts';
import { agentIdentity } from './connect-agent.ts';
import { type AgentRequest, MessageReader, sendMessage } from './messages.ts';

/** Maximum number of concurrent handshakes. */
const MOST_HANDSHAKES = 16;
/** Delay in ms between SIGTERM and SIGKILL for a command that rank 0 has abandoned. */
const KILL_AFTER_MS = 5_000;

/**
 * Runs the commands of rank 0 in this task: the daemons of mpirun, which start the MPI processes.
 * @returns the exit code, after the command of rank 0 has ended.
 */
export async function runAgent(task: TaskContext): Promise<number> {
  const server = await openListener(task.listener ?? { fd: null, host: '127.0.0.1', port: 0 });
  return await new Promise<number>((resolve) => {
    const handshakes = new IncomingHandshakes({
      key: Buffer.from(task.ringKey, 'base64'),
      expected: agentIdentity(task, task.rank ?? 0),
      most: MOST_HANDSHAKES,
      onAccepted: (channel) => serve(channel, task, resolve),
      onRefused: (address, reason) => console.error(`refused a connection from ${address}: it ${reason}`),
    });
    server.on('connection', handshakes.accept);
  });
}

function serve(channel: Channel, task: TaskContext, end: (code: number) => void): void {
  let joined = false;
  let command: ChildProcess | null = null;
  const invalid = (reason: string): void => {
    console.error(`rank 0 sent ${reason}`);
    channel.socket.destroy();
  };
  const reader = new MessageReader<AgentRequest>((request) => {
    if (request.type === 'join') {
      joined = true;
    } else if (request.type === 'end' && joined) {
      end(0);
    } else if (request.type === 'run' && typeof request.command === 'string' && command === null) {
      command = run(request.command, (code) => sendMessage(channel, { type: 'ended', code }));
    } else {
      invalid('an unknown request');
    }
  }, invalid);
  channel.socket.on('error', () => {});
  channel.socket.once('close', () => {
    if (joined) {
      console.error('rank 0 has ended without a result');
      appendFileSync(task.reportFile, `${JSON.stringify({ type: 'peer-lost', rank: 0 })}\n`);
      end(1);
    }
    if (command !== null) {
      kill(command);
    }
  });
  channel.read(reader);
}

function run(command: string, onEnded: (code: number) => void): ChildProcess {
  const child = spawn('/bin/bash', ['-c', command], { stdio: ['ignore', 'inherit', 'inherit'] });
  child.once('error', () => onEnded(127));
  child.once('exit', (code, signal) => onEnded(code ?? exitCodeOf(signal)));
  return child;
}

/** Returns the exit code that a shell would report. */
export function exitCodeOf(signal: NodeJS.Signals | null): number {
  return signal === null ? 1 : 128 + constants.signals[signal];
}

function kill(child: ChildProcess): void {
  child.kill('SIGTERM');
  setTimeout(() => child.kill('SIGKILL'), KILL_AFTER_MS).unref();
}
