import { type ErrorCode, TonyError } from '../../platform/errors.ts';
import type { Report } from './task-context.ts';

/** Codes of errors that depend only on the program and its arguments, so the same program always throws them again. */
const PERMANENT: ReadonlySet<ErrorCode> = new Set(['USAGE', 'MODEL_INVALID', 'FUNCTION_INVALID']);

/** Reports an uncaught error that a restart of the program would repeat. The job then ends without restarting the task. */
export function reportPermanentFailures(report: (report: Report) => void): void {
  process.on('uncaughtExceptionMonitor', (error) => {
    if (error instanceof TonyError && PERMANENT.has(error.code)) {
      report({ type: 'permanent-failure' });
    }
  });
}
