import { expect, test } from 'vitest';
import { vcoreCount } from '../job-values.ts';
import { memory } from './value-schemas.ts';

const messageOf = (schema: ReturnType<typeof memory> | ReturnType<typeof vcoreCount>, value: unknown) =>
  schema.safeParse(value).error?.issues[0]?.message;

test.each([
  [4, 'has no unit: write 4g'],
  ['4', 'has no unit: write 4g'],
  [1.5, 'has no unit: write 1.5g'],
  [2048, 'has no unit: write 2048m'],
  ['2048', 'has no unit: write 2048m'],
  [4_294_967_296, 'has no unit: write 4g'],
  [0, 'expected a size such as 512m or 4g'],
  ['4x', 'expected a size such as 512m or 4g'],
])('the message about the memory %j without a unit names the one that is meant', (value, message) => {
  expect(messageOf(memory(''), value)).toBe(message);
});

test.each([
  ['500m', 'expected a whole number of cores such as 1, not thousandths of a core as in Kubernetes'],
  ['1500m', 'expected a whole number of cores such as 2, not thousandths of a core as in Kubernetes'],
  [0.5, 'expected a whole number of cores'],
  ['two', 'expected a whole number of cores'],
])('the message about %j vcores says that a number of whole cores is expected', (value, message) => {
  expect(messageOf(vcoreCount(), value)).toBe(message);
});

test.each(['4g', '4G', '4gb', '4GB', '4Gi', '4GiB', '4 GiB'])('accepts %s, as docs/job-yaml.md says', (value) => {
  expect(memory('').parse(value)).toBe(4096);
});
