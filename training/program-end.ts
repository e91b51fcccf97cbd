import { inspect } from 'node:util';

/** What a program that has been told to end, or has failed, may still wait for; its executor kills it three seconds after the signal. */
const MOST_MS = { signal: 2000, failure: 5000 } as const;
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

export interface LastWork {
  /** There is something to do: else a failed program ends without delay. */
  readonly isDue: () => boolean;
  /** While the program can still wait; `succeeded` when it has come to its end by itself. */
  readonly finish: (succeeded: boolean) => Promise<void>;
  /** When it cannot: it calls process.exit, or has to go before `finish` was done. */
  readonly finishNow: () => void;
}

/**
 * Does the last work however this program ends, but for SIGKILL. Where the program listens to an uncaught exception or a signal itself, what
 * becomes of it is left to it.
 *
 * @returns takes it back.
 */
export function beforeProgramEnds(work: LastWork): () => void {
  const onEnd = () => {
    // Emitted again when the work is done.
    process.removeListener('beforeExit', onEnd);
    void work.finish((process.exitCode ?? 0) === 0);
  };
  const onFailure = (error: unknown) => {
    const alone = process.listenerCount('uncaughtException') === 1;
    if (alone) {
      process.stderr.write(`${inspect(error)}\n`);
    }
    if (!alone || !work.isDue()) {
      return alone ? process.exit(1) : undefined;
    }
    void within(MOST_MS.failure, work.finish(false)).then(() => process.exit(1));
  };
  const onSignal = (signal: NodeJS.Signals) => {
    if (process.listenerCount(signal) > 1) {
      void work.finish(false);
      return;
    }
    void within(MOST_MS.signal, work.isDue() ? work.finish(false) : Promise.resolve()).then(() => {
      stop();
      work.finishNow();
      process.kill(process.pid, signal);
    });
  };
  const stop = () => {
    process.removeListener('beforeExit', onEnd);
    process.removeListener('exit', work.finishNow);
    process.removeListener('uncaughtException', onFailure);
    for (const signal of SIGNALS) {
      process.removeListener(signal, onSignal);
    }
  };
  process.on('beforeExit', onEnd);
  process.on('exit', work.finishNow);
  process.on('uncaughtException', onFailure);
  for (const signal of SIGNALS) {
    process.on(signal, onSignal);
  }
  return stop;
}

async function within(ms: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, deadline]);
  clearTimeout(timer);
}
