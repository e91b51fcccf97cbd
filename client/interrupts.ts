import type { ReadStream } from 'node:tty';

/** How a process ends that was told by a signal to: as shells count it. */
export const INTERRUPTED = 130;

/** What the person wants of a job when Ctrl-C is pressed while it is followed. */
export type Decision = 'detach' | 'kill' | 'continue';

export interface InterruptOptions {
  /** The terminal that answers; null where nobody can be asked. */
  readonly input: ReadStream | null;
  /** Whether the job can go on without this process. */
  readonly mayDetach: boolean;
  /** Shows a question in place; empty when it is answered. */
  readonly ask: (question: string) => void;
  /** Never with `continue`. */
  readonly decided: (decision: 'detach' | 'kill', by: 'person' | 'signal') => void;
}

/**
 * Ctrl-C asks what is meant; a second one does what harms least: the job goes on where it can. Without a terminal a signal does that at once.
 * Answers the function that takes the handlers away again.
 */
export function onInterrupt({ input, mayDetach, ask, decided }: InterruptOptions): () => void {
  const last = mayDetach ? 'detach' : 'kill';
  const question = mayDetach ? 'Detach (d), kill the job (k), or go on (c)? ' : 'Kill the job (k), or go on (c)? ';
  let asking = false;

  const settle = (decision: Decision, by: 'person' | 'signal'): void => {
    asking = false;
    input?.setRawMode(false);
    input?.pause();
    input?.off('data', answered);
    ask('');
    if (decision !== 'continue') decided(decision, by);
  };
  const answered = (key: Buffer): void => {
    const decision = decisionOf(key.toString('latin1'), mayDetach);
    if (decision !== null) settle(decision, 'person');
  };
  const interrupted = (): void => {
    if (asking || input === null) {
      settle(last, input === null ? 'signal' : 'person');
      return;
    }
    asking = true;
    ask(question);
    // Keys come one by one, and Ctrl-C as a key.
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
    if (asking) settle('continue', 'signal');
  };
}

/**
 * What a terminal's input says: several keys come together when they are typed quickly, and the first that means something counts. Null when none
 * does; a key that sends a sequence, such as an arrow, means nothing.
 */
export function decisionOf(keys: string, mayDetach: boolean): Decision | null {
  if (keys.length > 1 && keys.startsWith('\x1b')) return null;
  for (const key of keys) {
    const decision = decisionOfKey(key, mayDetach);
    if (decision !== null) return decision;
  }
  return null;
}

function decisionOfKey(key: string, mayDetach: boolean): Decision | null {
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
