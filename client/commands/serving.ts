import { pino } from 'pino';
import { TonyError } from '../../conf/errors.ts';
import { createLogger, type Logger } from '../../conf/log.ts';

/** @throws TonyError USAGE */
export function checkPort(port: number): void {
  if (!(Number.isInteger(port) && port >= 0 && port <= 65_535)) throw new TonyError('USAGE', '--port wants a number from 0 to 65535.');
}

/** What goes wrong while pages are served goes to stderr: stdout is for the address. */
export function serverLog(): Logger {
  const log = createLogger({}, pino.destination({ fd: 2, sync: true }));
  log.level = 'warn';
  return log;
}
