import type { ChildProcess } from 'node:child_process';
import { appendFileSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import type { Channel } from '../../../../contract/connections/channel.ts';
import { IncomingHandshakes } from '../../../../contract/connections/incoming-handshakes.ts';
import { openListener } from '../../../../contract/connections/listener.ts';
import type { TaskContext } from '../../../../contract/process/task-context.ts';
import { pause } from '../../../../platform/async/backoff.ts';
import { agentIdentity, watchPeer } from './connect-agent.ts';
import { type AgentRequest, isBelow, MessageReader, sendMessage } from './messages.ts';
import { exitCodeOf, startCommand } from './shell-command.ts';

/** Maximum number of concurrent handshakes. */
const MOST_HANDSHAKES = 16;
/** Delay in ms between SIGTERM and SIGKILL for a command if rank 0 has closed the command's connection. */
const KILL_AFTER_MS = 5_000;
interface AgentOptions {
  /** Maximum time in ms to wait for the commands to exit after rank 0's own command has exited. */
  readonly restMs: number;
  /** Whether the agent fails as soon as a command fails. Otherwise, rank 0 decides what the failure means. */
  readonly failsWithCommands: boolean;
}

/**
 * Runs commands for rank 0 in this task.
 * @returns 0 if rank 0 sent `end` before it closed the connection; otherwise the exit code of the failed command, or 1
 */
export async function runAgent(task: TaskContext, { restMs, failsWithCommands }: AgentOptions): Promise<number> {
  const server = await openListener(task.listener ?? { fd: null, host: '127.0.0.1', port: 0 });
  const running = new Set<Promise<void>>();
  const code = await new Promise<number>((resolve) => {
    const handshakes = new IncomingHandshakes({
      key: Buffer.from(task.ringKey, 'base64'),
      expected: agentIdentity(task, task.taskRank ?? 0),
      most: MOST_HANDSHAKES,
      onAccepted: (channel) => serve(channel, task, running, failsWithCommands, resolve),
      onRefused: (address, reason) => console.error(`refused a connection from ${address}: it ${reason}`),
    });
    server.on('connection', handshakes.accept);
  });
  await Promise.race([Promise.all(running), pause(restMs)]);
  return code;
}

function serve(
  channel: Channel,
  task: TaskContext,
  running: Set<Promise<void>>,
  failsWithCommands: boolean,
  end: (code: number) => void,
): void {
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
      joined = false;
      end(0);
    } else if (request.type === 'run' && typeof request.command === 'string' && isBelow(request.folder) && command === null) {
      const child = startCommand(request.command, process.env, ownFolder(request.folder));
      command = child;
      const ended = async (): Promise<void> => {
        const code = await exitCodeOf(child);
        // If rank 0 has closed the connection, this agent has stopped the command.
        const hasFailed = code !== 0 && !channel.socket.destroyed;
        await new Promise<void>((sent) => answer(channel, code, sent));
        if (failsWithCommands && hasFailed) {
          end(code);
        }
      };
      running.add(ended());
    } else {
      invalid('an unknown request');
    }
  }, invalid);
  watchPeer(channel, 0, (cause) => {
    if (joined) {
      console.error(`${cause} before its command had ended`);
      appendFileSync(task.reportFile, `${JSON.stringify({ type: 'peer-lost', taskRank: 0 })}\n`);
      end(1);
    }
    if (command !== null && command.exitCode === null && command.signalCode === null) {
      console.error(`${cause}. Stopping the command that rank 0 started in this task`);
      kill(command);
    }
  });
  channel.read(reader);
}

/** Returns this task's folder with the same relative path as the folder in which rank 0 runs mpirun. */
function ownFolder(relative: string): string {
  const folder = path.resolve(relative);
  mkdirSync(folder, { recursive: true });
  return folder;
}

/** @param sent called when the response has been written or rank 0 has closed the connection */
function answer(channel: Channel, code: number, sent: () => void): void {
  channel.socket.once('close', sent);
  if (channel.socket.destroyed) {
    sent();
  } else {
    sendMessage(channel, { type: 'ended', code }, sent);
  }
}

function kill(child: ChildProcess): void {
  child.kill('SIGTERM');
  setTimeout(() => child.kill('SIGKILL'), KILL_AFTER_MS).unref();
}
