import fc from 'fast-check';
import { expect, it } from 'vitest';
import { describeExit, describeMb, describeStderr, lastBytes, oneLine, printable } from './diagnostics.ts';

it('keeps the end of a text, in whole characters and, where it can, in whole lines', () => {
  expect(lastBytes('short', 100)).toBe('short');
  expect(lastBytes(`${'noise '.repeat(100)}\nError: the cause\n    at f (x.ts:1)`, 40)).toBe('...\nError: the cause\n    at f (x.ts:1)');
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.integer({ min: 0, max: 64 }), (text, limit) => {
      const kept = lastBytes(text, limit);
      expect(Buffer.byteLength(kept)).toBeLessThanOrEqual(limit + 3);
      expect(text.endsWith(kept.replace(/^\.\.\./, ''))).toBe(true);
    }),
  );
});

it('lets no control characters into XML, JSON and terminals', () => {
  expect(printable('\u001b[31mError\u001b[0m: a\tb\nc\u0000\u0007')).toBe('Error: a\tb\nc');
  expect(oneLine('a\n  b\r\n\tc', 100)).toBe('a b c');
  expect(oneLine('x'.repeat(2_000)).length).toBeLessThan(1_100);
});

it('shows the last words of a program', () => {
  const exit = { generation: 1, code: 1, signal: '', stderrTail: `${'frame\n'.repeat(10_000)}Error: the cause\n` };
  const paragraph = describeStderr({ kind: 'program', exit });
  expect(paragraph.endsWith('Error: the cause')).toBe(true);
  expect(paragraph.length).toBeLessThan(2_200);
  expect(describeStderr({ kind: 'program', exit: { ...exit, stderrTail: '' } })).toBe('');
});

it('says how a program ended, and how much memory there is', () => {
  expect(describeExit({ generation: 1, code: 3, signal: '', stderrTail: '' })).toBe('exited with code 3');
  expect(describeExit({ generation: 1, code: 127, signal: '', stderrTail: '' })).toMatch(
    /^exited with code 127 \(command not found: check the spelling/,
  );
  expect(describeExit({ generation: 1, code: -1, signal: 'SIGKILL', stderrTail: '' })).toBe('was killed by SIGKILL');
  expect([512, 1024, 1536, 8192, 1100].map(describeMb)).toEqual(['512 MiB', '1 GiB', '1.5 GiB', '8 GiB', '1100 MiB']);
});
