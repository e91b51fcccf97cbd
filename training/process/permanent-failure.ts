import type { Report } from '../../contract/process/task-context.ts';
import { type ErrorCode, TonyError } from '../../platform/errors.ts';

/** Codes of errors that depend only on the program, its arguments and its input, so the same program always throws them again. */
const PERMANENT: ReadonlySet<ErrorCode> = new Set([
  'USAGE',
  'MODEL_INVALID',
  'FUNCTION_INVALID',
  'DATA_INVALID',
  'NOT_FOUND',
  'CHECKPOINT_MISMATCH',
  'WARM_START_MISMATCH',
]);

/** Reports an uncaught error that a restart of the program would repeat. The job then ends without restarting the task. */
export function reportPermanentFailures(report: (report: Report) => void): void {
  process.on('uncaughtExceptionMonitor', (error) => {
    if (error instanceof TonyError && PERMANENT.has(error.code)) {
      report({ type: 'permanent-failure' });
    }
  });
}
