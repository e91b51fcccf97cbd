import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ERROR_CODES, TonyError } from './errors.ts';

/** The last words of codes: the condition in which the thing is that the words before it name. */
const CONDITIONS = [
  'NOT_FOUND',
  'INVALID',
  'UNREADABLE',
  'UNWRITABLE',
  'UNREACHABLE',
  'UNAVAILABLE',
  'UNSUPPORTED',
  'DENIED',
  'MISMATCH',
  'FAILED',
  'EXCEEDED',
  'EXPIRED',
  'LOST',
  'ENDED',
  'FENCED',
  'FULL',
];
/** Codes that name no thing. */
const WHOLE = ['USAGE', 'INTERNAL', 'INTERRUPTED', 'ALREADY_EXISTS', 'TRAINING_DIVERGED'];

test('an error code is a thing and its condition, from one list of conditions', () => {
  const others = Object.keys(ERROR_CODES).filter(
    (code) => !CONDITIONS.some((condition) => code === condition || code.endsWith(`_${condition}`)),
  );
  expect(others.sort()).toEqual(WHOLE.sort());
});

test('only errors that may pass by themselves have the exit code 3', () => {
  const codes = Object.entries(ERROR_CODES).filter(([, { exit }]) => exit === 3);
  for (const [code] of codes) {
    expect(code).toMatch(/_(UNREACHABLE|UNAVAILABLE|FAILED)$/);
  }
});

const ROOT = path.join(import.meta.dirname, '..');
/** TensorBoard's server does not know the job, but its message appears on the job's page. */
const WITHOUT_JOB = ['TENSORBOARD_UNAVAILABLE'];

test('an error about a job whose ID is known names it in its hint', () => {
  expect(new TonyError('JOB_FAILED', 'x', { jobId: 'local_1_0001' }).hint).toBe('Read the logs: `tony-ts logs local_1_0001`.');
  const codes = Object.entries(ERROR_CODES).filter(([code, { hint }]) => hint.includes('JOB_ID') && !WITHOUT_JOB.includes(code));
  const files = execFileSync('git', ['ls-files', '-z', '*.ts', ':!*.test.ts'], { cwd: ROOT, encoding: 'utf8' }).split('\0');
  const thrown = files
    .filter((file) => file !== '')
    .flatMap((file) => readFileSync(path.join(ROOT, file), 'utf8').split('new TonyError(').slice(1))
    .filter((text) => codes.some(([code]) => text.trimStart().startsWith(`'${code}'`)))
    // The statement ends with the first line that closes the call.
    .map((text) => text.slice(0, text.search(/\);\n/)));
  expect(thrown.length).toBeGreaterThan(5);
  expect(thrown.filter((text) => !/\b(?:jobId|hint): /.test(text))).toEqual([]);
});
