import { inspect } from 'node:util';
import { withTimeout } from '../../platform/async/deadline.ts';

/**
 * The time limits in ms for a program's final work, just before it exits. After a signal, the executor kills the program when the grace
 * period of its role has ended, which is three seconds by default.
 */
const MOST_MS = { signal: 2000, failure: 5000 } as const;
const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

export interface LastWork {
  /** True if there is final work to do. If there is none, a program that has failed exits immediately. */
  readonly isDue: () => boolean;
  /** Does the final work asynchronously. `succeeded` is true if the program ended with exit code 0. */
  readonly finish: (succeeded: boolean) => Promise<void>;
  /** Does the final work synchronously, when the program calls process.exit, or when `finish` takes too long. */
  readonly finishNow: () => void;
}

/**
 * Runs the final work when this program ends for any reason except SIGKILL. If the program handles a signal or uncaught exceptions itself,
 * its own handler decides whether to exit.
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
