import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger } from 'pino';

/**
 * Creates a logger that writes JSON lines, each with the identity of the process (application, attempt, task, generation). Writes are
 * synchronous, so the last lines before a crash are not lost.
 */
export function createLogger(
  bindings: Record<string, string | number>,
  destination: DestinationStream = pino.destination({ fd: 1, sync: true }),
): Logger {
  return pino(
    { base: bindings, timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (label) => ({ level: label }) } },
    destination,
  );
}
