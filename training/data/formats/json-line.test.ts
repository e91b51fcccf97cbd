import { expect, test } from 'vitest';
import { parseJsonLine } from './json-line.ts';

test.each([
  ['{"a":NaN}', 'the line is not JSON, which has no NaN; write null, and replace it in `map`'],
  ['[1, -Infinity]', 'the line is not JSON, which has no -Infinity; write null, and replace it in `map`'],
  ['{"a": "NaN"', 'the line is not JSON: {"a": "NaN"'],
  [`{"a": ${'x'.repeat(200)}`, `the line is not JSON: {"a": ${'x'.repeat(74)}...`],
])('the damaged line %s is described', (line, message) => {
  expect(() => parseJsonLine(line)).toThrow(new Error(message));
});
