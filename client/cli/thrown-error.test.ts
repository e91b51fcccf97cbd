import { expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { thrownError } from './thrown-error.ts';

test('a full disk of this machine is not reported as a bug, unlike other errors without a code', () => {
  const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  expect(thrownError(full)).toMatchObject({
    code: 'STORAGE_FULL',
    message: 'A disk of this machine is full: ENOSPC: no space left on device, write.',
    hint: expect.stringContaining('TMPDIR'),
  });
  const known = new TonyError('USAGE', 'There is no option --x.');
  expect(thrownError(known)).toBe(known);
  expect(thrownError(new TypeError('x is not a function'))).toMatchObject({ code: 'INTERNAL' });
  expect(thrownError(null)).toMatchObject({ code: 'INTERNAL' });
});
