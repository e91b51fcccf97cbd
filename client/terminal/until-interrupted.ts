import { TonyError } from '../../platform/errors.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs an action whose signal Ctrl-C aborts. The action then cleans up, for example kills its application. A second Ctrl-C ends the process
 * at once.
 * @param message of the error INTERRUPTED with which the signal aborts
 * @param beforeExit restores the terminal before the process ends at once
 */
export async function untilInterrupted<T>(message: string, action: (signal: AbortSignal) => Promise<T>, beforeExit = () => {}): Promise<T> {
  const interrupted = new AbortController();
  const error = new TonyError('INTERRUPTED', message);
  const interrupt = (): void => {
    if (interrupted.signal.aborted) {
      beforeExit();
      process.exit(error.exitCode);
    }
    interrupted.abort(error);
  };
  for (const signal of SIGNALS) {
    process.on(signal, interrupt);
  }
  try {
    return await action(interrupted.signal);
  } finally {
    for (const signal of SIGNALS) {
      process.off(signal, interrupt);
    }
  }
}
