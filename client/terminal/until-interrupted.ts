import { TonyError } from '../../platform/errors.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs an action that the user can interrupt with Ctrl-C. The first Ctrl-C aborts the action's signal, so that the action can clean up, for
 * example by killing its application. A second Ctrl-C exits the process immediately.
 * @param message message of the abort reason, which is an error with the code INTERRUPTED
 * @param beforeExit restores the terminal before the process exits immediately
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
