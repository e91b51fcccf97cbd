import fc from 'fast-check';
import { expect, test } from 'vitest';
import { withoutEnd } from './without-end.ts';

test('removes exactly the characters at the end', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('/', 'a') }), (text) => {
      expect(withoutEnd(text, '/')).toBe(text.replace(/\/+$/, ''));
    }),
  );
});
