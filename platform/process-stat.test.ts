import { expect, it } from 'vitest';
import { parseStat, readStat } from './process-stat.ts';

const STAT =
  '4242 (a) b) R 17 4242 4242 0 -1 4194304 1093 0 0 0 150 50 0 0 20 0 1 0 987654 8445952 1024 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0';

it('parses a stat line with any program name', () => {
  expect(parseStat(STAT)).toEqual({
    pid: 4242,
    state: 'R',
    parent: 17,
    group: 4242,
    session: 4242,
    ticks: 200,
    startTime: 987_654,
    pages: 1024,
  });
  expect(parseStat('')).toBeNull();
  expect(parseStat('12 (x')).toBeNull();
  expect(readStat(0x7fffffff)).toBeNull();
});
