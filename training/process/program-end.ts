import { inspect } from 'node:util';
import { withTimeout } from '../../platform/deadline.ts';

/** The time limits for the last work, in ms. The executor kills the program three seconds after it sends a signal. */
const MOST_MS = { signal: 2000, failure: 5000 } as const;
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

export interface LastWork {
  /** Whether any work is left. A failed program without work exits immediately. */
  readonly isDue: () => boolean;
  /** Does the work while the program can still await promises. `succeeded` is true if the program has ended with exit code 0. */
  readonly finish: (succeeded: boolean) => Promise<void>;
  /** Does the work synchronously, for a program that calls process.exit or must exit before `finish` has completed. */
  readonly finishNow: () => void;
}

/**
 * Runs the last work when this program ends, unless SIGKILL ends it. If the program has its own handler for uncaught exceptions or a
 * signal, that handler decides whether to exit.
 *
 * @returns a function that removes the handlers.
 */
export function beforeProgramEnds(work: LastWork): () => void {
  const onEnd = () => {
    // Node.js emits `beforeExit` again after the asynchronous work.
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
    void withTimeout(work.finish(false), MOST_MS.failure, () => {}).then(() => process.exit(1));
  };
  const onSignal = (signal: NodeJS.Signals) => {
    if (process.listenerCount(signal) > 1) {
      void work.finish(false);
      return;
    }
    void withTimeout(work.isDue() ? work.finish(false) : Promise.resolve(), MOST_MS.signal, () => {}).then(() => {
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
