import { afterEach, expect, test } from 'vitest';
import type { Report } from '../../contract/process/task-context.ts';
import { ERROR_CODES, type ErrorCode, TonyError } from '../../platform/errors.ts';
import { reportPermanentFailures } from './permanent-failure.ts';

const before = process.listeners('uncaughtExceptionMonitor');
afterEach(() => {
  for (const listener of process.listeners('uncaughtExceptionMonitor')) {
    if (!before.includes(listener)) {
      process.off('uncaughtExceptionMonitor', listener);
    }
  }
});

function reportsOf(error: Error): Report[] {
  const reports: Report[] = [];
  reportPermanentFailures((report) => reports.push(report));
  const listener = process.listeners('uncaughtExceptionMonitor').at(-1);
  listener?.(error, 'uncaughtException');
  return reports;
}

test('exactly the errors that a restart of the program would repeat end the job', () => {
  const permanent = (Object.keys(ERROR_CODES) as ErrorCode[]).filter((code) => reportsOf(new TonyError(code, 'a')).length > 0);
  expect(permanent.sort()).toEqual([
    'CHECKPOINT_MISMATCH',
    'DATA_INVALID',
    'FUNCTION_INVALID',
    'MODEL_INVALID',
    'NOT_FOUND',
    'USAGE',
    'WARM_START_MISMATCH',
  ]);
  expect(reportsOf(new TonyError('NOT_FOUND', 'a'))).toEqual([{ type: 'permanent-failure' }]);
});

test("the program's own errors are left to the restart policy", () => {
  expect(reportsOf(new Error('a'))).toEqual([]);
  expect(reportsOf(Object.assign(new Error('a'), { code: 'NOT_FOUND' }))).toEqual([]);
  expect(reportsOf(new Error('a', { cause: new TonyError('DATA_INVALID', 'a') }))).toEqual([]);
});
