import type { ReadStream, WriteStream } from 'node:tty';
import type { JobConnection } from '../connections/job-connection.ts';
import { type ExecStreams, exitCodeOf } from './exec.ts';
import { parseTask } from './parse-task.ts';
import type { Session } from './session.ts';
import { SessionClient } from './session-client.ts';

export interface ShellOptions extends ExecStreams {
  /**
   * The user's terminal, or null if the input or the output is not a terminal. Without a terminal, the shell reads commands from the input
   * and does not show a prompt.
   */
  readonly terminal: UserTerminal | null;
  readonly onNotice: (notice: string) => void;
}

export interface UserTerminal {
  readonly input: ReadStream;
  readonly output: WriteStream;
  /** Value of TERM. */
  readonly type: string;
}

/**
 * Runs a shell in a task. If the user has a terminal, the shell runs in a terminal of the same size on the node.
 * @returns the shell's exit code
 * @throws TonyError USAGE, SESSION_DENIED, SESSION_ENDED, REMOTE_ACCESS_DENIED
 */
export async function openShell(job: JobConnection, task: string, options: ShellOptions): Promise<number> {
  const { terminal, signal, onNotice } = options;
  const client = new SessionClient(job);
  try {
    const command = { words: [], terminal: terminal === null ? null : { ...sizeOf(terminal), type: terminal.type } };
    const session = await client.open({ ...parseTask(task), command });
    const close = (): void => session.close();
    signal?.addEventListener('abort', close, { once: true });
    if (terminal !== null && !session.terminal) {
      onNotice(
        "The command `script` is not on the task's PATH, so the shell runs without a terminal. Line editing and job control are not available.",
      );
    }
    const leave = terminal !== null && session.terminal ? enter(terminal, session) : () => {};
    try {
      return exitCodeOf(await session.converse(options.input, options.output, options.errors));
    } finally {
      leave();
      signal?.removeEventListener('abort', close);
    }
  } finally {
    client.close();
  }
}

/** Passes every key press and the terminal size to the shell. Returns a function that restores the terminal. */
function enter(terminal: UserTerminal, session: Session): () => void {
  const resized = (): void => session.resize(sizeOf(terminal));
  terminal.output.on('resize', resized);
  terminal.input.setRawMode(true);
  return () => {
    terminal.input.setRawMode(false);
    terminal.output.off('resize', resized);
  };
}

function sizeOf({ output }: UserTerminal): { columns: number; rows: number } {
  return { columns: output.columns, rows: output.rows };
}
