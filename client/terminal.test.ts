import fc from 'fast-check';
import { expect, test } from 'vitest';
import { clip, harmless, terminalOf } from './terminal.ts';

test('what comes from elsewhere cannot steer the terminal', () => {
  expect(harmless('\x1b[31mred\x1b[0m \x1b]0;title\x07text\r\x08\n\tend')).toBe('red text\n\tend');
  fc.assert(
    fc.property(fc.string({ unit: 'binary-ascii', maxLength: 60 }), (text) => !/\p{Cc}/u.test(harmless(text).replace(/[\t\n]/g, ''))),
  );
  expect(clip('worker:10', 5)).toBe('work…');
});

test('colours only on a terminal, and not against NO_COLOR', () => {
  expect(terminalOf({ isTTY: true }, {}).paint('red', 'x')).toBe('\x1b[31mx\x1b[39m');
  expect(terminalOf({ isTTY: true }, { NO_COLOR: '1' }).paint('red', 'x')).toBe('x');
  expect(terminalOf({}, {}).paint('red', 'x')).toBe('x');
  expect(terminalOf({ isTTY: true }, { TERM: 'dumb' }).live).toBe(false);
});
