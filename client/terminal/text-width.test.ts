import xterm from '@xterm/headless';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { clip, wrap } from './terminal.ts';
import { fold, headOf, padTo, widthOf } from './text-width.ts';

test('widthOf equals the number of columns that a terminal uses', async () => {
  expect(widthOf('plain')).toBe(5);
  expect(widthOf('\x1b[31mred\x1b[39m')).toBe(3);
  expect(widthOf('学習')).toBe(4);
  expect(widthOf('e\u0301')).toBe(1);
  for (const text of ['plain', 'größer', '学習 job', '한국어', 'e\u0301clair', 'ﬁt → 3 µs', '…']) {
    const terminal = new xterm.Terminal({ cols: 40, rows: 2, allowProposedApi: true });
    await new Promise<void>((resolve) => terminal.write(text, resolve));
    expect({ text, width: widthOf(text) }).toEqual({ text, width: terminal.buffer.active.cursorX });
  }
});

test('folded lines fit the width and keep every word in order', () => {
  expect(fold('hint: one two three', 12, '      ')).toEqual(['hint: one', '      two', '      three']);
  expect(fold('  a bb ccc', 6)).toEqual(['  a bb', '  ccc']);
  expect(fold('see https://example.org/a/long/path now', 16)).toEqual(['see https://example.org/a/long/path', 'now']);
  const word = fc.stringMatching(/^[a-z学…]{1,10}$/);
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 30 }), fc.integer({ min: 24, max: 60 }), (words, width) => {
      const lines = fold(words.join(' '), width);
      expect(lines.join(' ').split(' ')).toEqual(words);
      for (const line of lines) {
        expect(widthOf(line)).toBeLessThanOrEqual(width);
      }
    }),
  );
});

test('text is truncated, padded and wrapped by columns, not by characters', () => {
  expect(headOf('学習中', 5)).toBe('学習');
  expect(headOf('👩‍💻e\u0301', 2)).toBe('👩‍💻');
  expect(headOf('👩‍💻', 1)).toBe('');
  expect(padTo('学', 4)).toBe('学  ');
  expect(padTo('7', 3, 'right')).toBe('  7');
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', ' ', '学', 'é', '✅'), maxLength: 80 }),
      fc.integer({ min: 2, max: 40 }),
      (text, width) => {
        expect(widthOf(clip(text, width))).toBeLessThanOrEqual(width);
        for (const line of wrap(text, width, 5)) {
          expect(widthOf(line)).toBeLessThanOrEqual(width);
        }
      },
    ),
  );
});
