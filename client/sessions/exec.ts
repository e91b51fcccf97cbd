import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { TonyError } from '../../platform/errors.ts';
import { MAXIMUM_COMMAND_BYTES, type SessionEnd } from '../../protos/session-protocol.ts';
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
 * @throws TonyError USAGE, SESSION_REFUSED, SESSION_ENDED, REMOTE_ACCESS_OFF
 */
export async function execInTask(job: JobConnection, task: string, words: readonly string[], streams: ExecStreams): Promise<number> {
  if (words.length === 0) {
    throw new TonyError('USAGE', 'No command was given.', { hint: `Write it after --, as in: tony-ts exec APPLICATION ${task} -- ls -l` });
  }
  const bytes = words.reduce((sum, word) => sum + Buffer.byteLength(word) + 1, 0);
  if (bytes > MAXIMUM_COMMAND_BYTES) {
    throw new TonyError('USAGE', `The command has ${bytes} bytes; the limit is ${MAXIMUM_COMMAND_BYTES}.`, {
      hint: 'Pass long content through standard input.',
    });
  }
  const client = new SessionClient(job);
  try {
    const session = await client.open({ ...parseTask(task), command: { words } });
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

/** Returns the exit code that a shell reports. After signal N, this is 128 + N. */
export function exitCodeOf({ code, signal }: SessionEnd): number {
  return signal === '' ? code : 128 + (constants.signals[signal as NodeJS.Signals] ?? 0);
}
