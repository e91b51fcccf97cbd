import { pino } from 'pino';
import { TonyError } from '../../../platform/errors.ts';
import { createLogger, type Logger } from '../../../platform/log.ts';

/** @throws TonyError USAGE if the port is invalid */
export function checkPort(port: number): void {
  if (!(Number.isInteger(port) && port >= 0 && port <= 65_535)) throw new TonyError('USAGE', '--port wants a number from 0 to 65535.');
}

/** Logs errors of the page server to stderr; stdout is reserved for the URL. */
export function serverLog(): Logger {
  const log = createLogger({}, pino.destination({ fd: 2, sync: true }));
  log.level = 'warn';
  return log;
}
