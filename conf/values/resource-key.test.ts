import { expect, test } from 'vitest';
import { otherResourceProblem, resourceKeyProblem } from './resource-key.ts';

test.each(['yarn.io/fpga', 'FPGA', 'nec.com/ve', 'hwid.v2', 'disk-bandwidth'])('accepts %s as a resource type', (key) => {
  expect(otherResourceProblem(key)).toBeUndefined();
});

test.each([
  ['memory', /separate key/],
  ['memory-mb', /did you mean `memory`/],
  ['vcores', /separate key/],
  ['yarn.io/gpu', /did you mean `gpus`/],
  ['gpsu', /did you mean `gpus`/],
  ['instances', /write `instances` next to/],
  ['', /not a valid resource type name/],
  ['a:b', /not a valid resource type name/],
  ['a+b', /not a valid resource type name/],
  ['a=b', /not a valid resource type name/],
  ['__proto__', /not a valid resource type name/],
  ['x'.repeat(65), /at most 64 characters/],
  [`${'a'.repeat(63)}!`, /not a valid resource type name/],
])('rejects %s as a resource type', (key, message) => {
  expect(otherResourceProblem(key)).toMatch(message);
});

test('resourceKeyProblem accepts memory, vcores and gpus', () => {
  for (const key of ['memory', 'vcores', 'gpus', 'yarn.io/fpga']) {
    expect(resourceKeyProblem(key)).toBeUndefined();
  }
  expect(resourceKeyProblem('instances')).toBeDefined();
});
