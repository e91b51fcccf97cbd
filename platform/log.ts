import { type DestinationStream, type Logger, pino } from 'pino';

export type { Logger } from 'pino';

/**
 * Creates a logger that writes JSON lines. Each line identifies the process, for example by its application and task. Writes are
 * synchronous, so a crash does not lose the last lines.
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
