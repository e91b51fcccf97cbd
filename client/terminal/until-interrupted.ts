import { TonyError } from '../../platform/errors.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs an action, and aborts its signal on Ctrl-C, so that the action can clean up, for example kill its application. A second Ctrl-C exits the
 * process immediately.
 * @param message message of the abort reason, an error INTERRUPTED
 * @param beforeExit restores the terminal before the immediate exit
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
