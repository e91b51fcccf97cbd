import fc from 'fast-check';
import { expect, test } from 'vitest';
import { describeMetric, formatBytes, formatNumber } from './quantities.ts';
import { clip, harmless, terminalOf } from './terminal.ts';

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [12_345, '12.3 kB'],
  [999_960, '1.0 MB'],
  [180_000_000, '180.0 MB'],
  [5e15, '5.0 PB'],
])('%d bytes are %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test.each([
  [0.123456, '0.1235'],
  [12, '12'],
  [1e-9, '1e-9'],
  [123_456.7, '123500'],
  [Number.NaN, 'NaN'],
])('%d reads %s', (value, text) => {
  expect(formatNumber(value)).toBe(text);
});

test('an accuracy is a share, other metrics are numbers', () => {
  expect(describeMetric('test/accuracy', 0.98714)).toBe('test accuracy: 98.71 %');
  expect(describeMetric('val_acc', 1)).toBe('val acc: 100.00 %');
  expect(describeMetric('test/loss', 0.0412)).toBe('test loss: 0.0412');
  expect(describeMetric('accuracy_requests', 1)).toBe('accuracy requests: 1');
});

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
