import type { Readable, Writable } from 'node:stream';
import { exitCodeOf as exitCodeOfProgram } from '../../conf/status/program-signal.ts';
import { TonyError } from '../../platform/errors.ts';
import { MAXIMUM_COMMAND_BYTES } from '../../protos/session-protocol.ts';
import type { TonyMessages } from '../../protos/tony-messages.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { parseTask } from './parse-task.ts';
import { SessionClient } from './session-client.ts';

export interface ExecStreams {
  readonly input: Readable;
  readonly output: Writable;
  readonly errors: Writable;
  /** Aborting this signal stops the command. */
  readonly signal?: AbortSignal;
}

/**
 * Runs a command in a task of a running job. The command runs in the same working directory and environment as the task's program. The
 * command is stopped when the program, the executor or this process exits.
 * @param task `ROLE:INDEX`
 * @param words program and arguments
 * @returns the command's exit code, or 128 + N if signal N terminated the command
 * @throws TonyError USAGE, SESSION_DENIED, SESSION_ENDED, REMOTE_ACCESS_DENIED
 */
export async function execInTask(job: JobConnection, task: string, words: readonly string[], streams: ExecStreams): Promise<number> {
  checkCommand(words, task);
  const client = new SessionClient(job);
  try {
    const session = await client.open({ ...parseTask(task), command: { words, terminal: null } });
    const close = (): void => session.close();
    streams.signal?.addEventListener('abort', close, { once: true });
    try {
      return exitCodeOf(await session.converse(streams.input, streams.output, streams.errors));
    } finally {
      streams.signal?.removeEventListener('abort', close);
    }
  } finally {
    client.close();
  }
}

/** @throws TonyError USAGE if there is no command, or if it is too long to send */
export function checkCommand(words: readonly string[], task: string): void {
  if (words.length === 0) {
    throw new TonyError('USAGE', 'No command was given.', { hint: `Write it after --, as in: tony-ts exec APPLICATION ${task} -- ls -l` });
  }
  const bytes = words.reduce((sum, word) => sum + Buffer.byteLength(word) + 1, 0);
  if (bytes > MAXIMUM_COMMAND_BYTES) {
    throw new TonyError('USAGE', `The command has ${bytes} bytes; the limit is ${MAXIMUM_COMMAND_BYTES}.`, {
      hint: 'Pass long content through standard input.',
    });
  }
}

/** Returns the exit code that a shell reports. After signal N, this is 128 + N. */
export function exitCodeOf({ code, signal }: TonyMessages['SessionEnd']): number {
  return exitCodeOfProgram(signal === '' ? { code, signal: null } : { code: null, signal }) ?? 128;
}
