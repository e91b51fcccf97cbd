import fc from 'fast-check';
import { expect, test } from 'vitest';
import { clip, harmless, printable, terminalOf } from './terminal.ts';

test('harmless() removes control sequences', () => {
  expect(harmless('\x1b[31mred\x1b[0m \x1b]0;title\x07text\r\x08\n\tend')).toBe('red text\n\tend');
  fc.assert(
    fc.property(fc.string({ unit: 'binary-ascii', maxLength: 60 }), (text) => !/\p{Cc}/u.test(harmless(text).replace(/[\t\n]/g, ''))),
  );
  expect(clip('worker:10', 5)).toBe('work…');
});

test('harmless() removes characters that change the direction of text', () => {
  expect(harmless('safe \u202egnp.exe\u202c \u2066x\u2069')).toBe('safe gnp.exe x');
});

test('printable() keeps only the styles of paint()', () => {
  const terminal = terminalOf({ isTTY: true }, {});
  const painted = terminal.paint('red', 'failed');
  expect(printable(`${painted}\tby x\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[8m\x9b31m\u202e\n`)).toBe(`${painted}\tby x31m\n`);
});

test('paint() adds colours only on a terminal, and not with NO_COLOR', () => {
  expect(terminalOf({ isTTY: true }, {}).paint('red', 'x')).toBe('\x1b[31mx\x1b[39m');
  expect(terminalOf({ isTTY: true }, { NO_COLOR: '1' }).paint('red', 'x')).toBe('x');
  expect(terminalOf({}, {}).paint('red', 'x')).toBe('x');
  expect(terminalOf({ isTTY: true }, { TERM: 'dumb' }).live).toBe(false);
});
