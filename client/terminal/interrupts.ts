import type { ReadStream } from 'node:tty';

/** Exit code of a process terminated by SIGINT: 128 plus the signal number, as in a shell. */
export const INTERRUPTED = 130;

/** The user's choice after pressing Ctrl-C while a command follows a job. */
export type InterruptChoice = 'detach' | 'kill' | 'continue';

export interface InterruptOptions {
  /** Terminal from which the answer is read, or null if there is none. */
  readonly input: ReadStream | null;
  readonly mayDetach: boolean;
  /** Shows the question. Called with an empty string after the user has answered. */
  readonly ask: (question: string) => void;
  /** Called with the decision, unless the decision is `continue`. */
  readonly decided: (decision: 'detach' | 'kill', by: 'person' | 'signal') => void;
}

/**
 * Installs signal handlers, and returns a function that removes them. After Ctrl-C, asks the user whether to detach, kill the job or
 * continue. After a second Ctrl-C, or if there is no terminal, detaches if possible, and kills the job otherwise.
 */
export function onInterrupt({ input, mayDetach, ask, decided }: InterruptOptions): () => void {
  const last = mayDetach ? 'detach' : 'kill';
  const question = mayDetach ? 'Detach (d), kill the job (k), or continue (c)? ' : 'Kill the job (k), or continue (c)? ';
  let asking = false;

  const settle = (decision: InterruptChoice, by: 'person' | 'signal'): void => {
    asking = false;
    input?.setRawMode(false);
    input?.pause();
    input?.off('data', answered);
    ask('');
    if (decision !== 'continue') {
      decided(decision, by);
    }
  };
  const answered = (key: Buffer): void => {
    const decision = decisionOf(key.toString('latin1'), mayDetach);
    if (decision !== null) {
      settle(decision, 'person');
    }
  };
  const interrupted = (): void => {
    if (asking || input === null) {
      settle(last, input === null ? 'signal' : 'person');
      return;
    }
    asking = true;
    ask(question);
    // In raw mode, the terminal delivers each key press immediately, including Ctrl-C.
    input.setRawMode(true);
    input.on('data', answered);
    input.resume();
  };
  const ended = (): void => settle(last, 'signal');

  process.on('SIGINT', interrupted);
  process.on('SIGTERM', ended);
  process.on('SIGHUP', ended);
  return () => {
    process.off('SIGINT', interrupted);
    process.off('SIGTERM', ended);
    process.off('SIGHUP', ended);
    if (asking) {
      settle('continue', 'signal');
    }
  };
}

/**
 * Returns the first valid choice in the input, or null if there is none. The input may contain several key presses. Ignores escape
 * sequences, such as those of arrow keys.
 */
export function decisionOf(keys: string, mayDetach: boolean): InterruptChoice | null {
  if (keys.length > 1 && keys.startsWith('\x1b')) {
    return null;
  }
  for (const key of keys) {
    const decision = decisionOfKey(key, mayDetach);
    if (decision !== null) {
      return decision;
    }
  }
  return null;
}

function decisionOfKey(key: string, mayDetach: boolean): InterruptChoice | null {
  switch (key.toLowerCase()) {
    case 'k':
      return 'kill';
    case 'c':
    case '\r':
    case '\n':
    case '\x1b':
      return 'continue';
    case 'd':
      return mayDetach ? 'detach' : null;
    case '\x03':
      return mayDetach ? 'detach' : 'kill';
    default:
      return null;
  }
}
