import { expect, test } from 'vitest';
import { ERROR_CODES } from './errors.ts';

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
