/** Resolves when this process receives a termination signal. A second signal terminates the process immediately. */
export function untilSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.once(signal, resolve);
    }
  });
}
