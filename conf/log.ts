import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger } from 'pino';

/**
 * The one structured logger: JSON lines, each with what identifies the process (application, attempt, task, generation).
 * Writes synchronously, so that the last lines before a crash are there.
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
