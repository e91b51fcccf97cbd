import fc from 'fast-check';
import { expect, it } from 'vitest';
import { asGeneration } from './counters.ts';
import { describeMb, lastBytes, lastLines, oneLine, printable, programEnd } from './diagnostics.ts';

it('keeps the end of a text in whole characters and, if possible, in whole lines', () => {
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

it('removes control characters from text for XML, JSON and terminals', () => {
  expect(printable('\u001b[31mError\u001b[0m: a\tb\nc\u0000\u0007')).toBe('Error: a\tb\nc');
  expect(oneLine('a\n  b\r\n\tc', 100)).toBe('a b c');
  expect(oneLine('x'.repeat(2_000)).length).toBeLessThan(1_100);
});

it("shows the last lines of a program's output", () => {
  const lines = lastLines(`${'frame\n'.repeat(10_000)}Error: the cause\n`);
  expect(lines.at(-1)).toBe('Error: the cause');
  expect(lines.join('\n').length).toBeLessThan(2_200);
  expect(lastLines('')).toEqual([]);
});

it('describes the exit of a program and amounts of memory', () => {
  const exit = { generation: asGeneration(1), code: 3, signal: '', stderrTail: '', permanent: false };
  expect(programEnd(exit)).toEqual({ code: 3, signal: null });
  expect(programEnd({ ...exit, code: -1, signal: 'SIGKILL' })).toEqual({ code: null, signal: 'SIGKILL' });
  expect(programEnd({ ...exit, code: -1 })).toEqual({ code: null, signal: null });
  expect([512, 1024, 1536, 8192, 1100].map(describeMb)).toEqual(['512 MiB', '1 GiB', '1.5 GiB', '8 GiB', '1100 MiB']);
});
