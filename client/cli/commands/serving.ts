import { pino } from 'pino';
import { createLogger, type Logger } from '../../../platform/log.ts';

/** Returns a logger that writes warnings and errors of the page server to stderr, because stdout contains only the URL. */
export function serverLog(): Logger {
  const log = createLogger({}, pino.destination({ fd: 2, sync: true }));
  log.level = 'warn';
  return log;
}
