import { pino } from 'pino';
import { createLogger, type Logger } from '../../../platform/log.ts';

/** Returns a logger that writes the page server's warnings and errors to stderr, because stdout is reserved for the URL. */
export function serverLog(): Logger {
  const log = createLogger({}, pino.destination({ fd: 2, sync: true }));
  log.level = 'warn';
  return log;
}
