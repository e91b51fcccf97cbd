import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatDuration, formatMemory, parseDuration, parseMemory, writtenDuration, writtenMemory } from './units.ts';

test.each([
  ['512m', 512],
  ['1.5g', 1536],
  ['2 GiB', 2048],
  ['1t', 1_048_576],
  ['4Gi', 4096],
  ['300', undefined],
  ['0.5 TiB', 524_288],
  ['0m', undefined],
  ['2x', undefined],
  ['g', undefined],
  ['4i', undefined],
])('memory %s is %s MiB', (text, mebibytes) => {
  expect(parseMemory(text)).toBe(mebibytes);
});

test.each([
  ['500ms', 500],
  ['1.5s', 1500],
  ['10m', 600_000],
  ['2h', 7_200_000],
  ['1d', 86_400_000],
  ['5', undefined],
  ['1h30m', 5_400_000],
  ['1d 2h 3m 4s 5ms', 93_784_005],
  ['1h30', undefined],
  ['1.5.2s', undefined],
  ['-1s', undefined],
])('duration %s is %s ms', (text, ms) => {
  expect(parseDuration(text)).toBe(ms);
});

test('parsing never throws for any text', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      parseMemory(text);
      parseDuration(text);
    }),
  );
});

test('formats sizes and durations in readable units', () => {
  expect([512, 1024, 1536, 65_536].map(formatMemory)).toEqual(['512 MiB', '1 GiB', '1.5 GiB', '64 GiB']);
  expect([20, 1500, 60_000, 90_000, 3_600_000, 5_400_000, 604_800_000, 176_400_000].map(formatDuration)).toEqual([
    '20 ms',
    '1.5 s',
    '1 min',
    '1 min 30 s',
    '1 h',
    '1 h 30 min',
    '7 d',
    '2 d 1 h',
  ]);
});

test('parsing reads back each written value exactly', () => {
  expect([1536, 4096, 1].map(writtenMemory)).toEqual(['1536m', '4g', '1m']);
  expect([90_000, 3_600_000, 1500, 172_800_000].map(writtenDuration)).toEqual(['90s', '1h', '1500ms', '2d']);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 2 ** 40 }), (value) => {
      expect(parseMemory(writtenMemory(value))).toBe(value);
      expect(parseDuration(writtenDuration(value))).toBe(value);
    }),
  );
});
