import { expect, test } from 'vitest';
import {
  formatAgo,
  formatCount,
  formatElapsed,
  formatMark,
  formatMetric,
  formatNumberOf,
  formatSpan,
  formatStepTime,
  spoken,
} from './format.ts';
import { timeMarks } from './time-steps.ts';

test('numbers are formatted for human readers', () => {
  expect(formatCount(12_345_678)).toBe('12,345,678');
  expect([formatNumberOf(1, 'task'), formatNumberOf(0, 'task'), formatNumberOf(3, 'task', 1200)]).toEqual([
    '1 task',
    '0 tasks',
    '3 of 1,200 tasks',
  ]);
  expect(formatMetric('test/accuracy', 0.98714)).toBe('98.71 %');
  expect(formatMetric('test/accuracy', 0.2, 0.2)).toBe('20 %');
  expect(formatMetric('accuracy', 3.5)).toBe('3.5');
  expect(formatMetric('loss', 0.0213456)).toBe('0.02135');
  expect(formatMetric('train/examples_per_second', 4309.4)).toBe('4,309');
  expect(formatMetric('loss', null)).toBe('NaN');
});

test('durations and times are rounded to a useful precision', () => {
  expect([-5, 0, 999, 61_500, 3_660_000].map(formatElapsed)).toEqual(['0 s', '0 s', '0 s', '1 min 1 s', '1 h 1 min']);
  expect([12, 140, 8_449, 61_500].map(formatSpan)).toEqual(['0 s', '100 ms', '8.4 s', '1 min 1 s']);
  expect([0.06, 9.94, 17.2, 1250].map(formatStepTime)).toEqual(['0.1 ms', '9.9 ms', '17 ms', '1.3 s']);
  expect([400, 2_300].map(formatAgo)).toEqual(['now', '2 s ago']);
  const noon = new Date(2026, 10, 21, 12, 5, 9).getTime();
  expect([1, 60, 86_400].map((step) => formatMark(noon, step))).toEqual(['12:05:09', '12:05', '11-21']);
});

test('metric names become words', () => {
  expect(spoken('train/examples_per_second')).toBe('train examples per second');
  expect(spoken('testLoss')).toBe('test loss');
  expect(spoken('val_acc')).toBe('val acc');
});

test('a time axis has a small number of round marks', () => {
  expect(timeMarks(12.4, 7)).toEqual([0, 2, 4, 6, 8, 10, 12]);
  expect(timeMarks(0.3, 7)).toEqual([0, 0.1, 0.2, 0.3]);
  expect(timeMarks(5_700, 3)).toEqual([0, 3_600]);
  expect(timeMarks(1e9, 4).length).toBeLessThanOrEqual(5);
});
