import { expect, test } from 'vitest';
import { describeMetric, formatBytes, formatNumber } from './quantities.ts';

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [12_345, '12.3 kB'],
  [999_960, '1.0 MB'],
  [180_000_000, '180.0 MB'],
  [5e15, '5.0 PB'],
])('formats %d bytes as %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test.each([
  [0.123456, '0.1235'],
  [12, '12'],
  [1e-9, '1e-9'],
  [123_456.7, '123500'],
  [Number.NaN, 'NaN'],
])('formats the number %d as %s', (value, text) => {
  expect(formatNumber(value)).toBe(text);
});

test('describeMetric prints an accuracy as a percentage, other metrics as numbers', () => {
  expect(describeMetric('test/accuracy', 0.98714)).toBe('test accuracy: 98.71 %');
  expect(describeMetric('val_acc', 1)).toBe('val acc: 100.00 %');
  expect(describeMetric('test/loss', 0.0412)).toBe('test loss: 0.0412');
  expect(describeMetric('accuracy_requests', 1)).toBe('accuracy requests: 1');
});
