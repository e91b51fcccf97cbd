import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { apiObject } from '../../../conf/status/api-object.ts';
import { valueFormatter } from './value-output.ts';

/** Control characters in another user's strings, both as values and as keys. */
const VALUE = apiObject('Job', {
  plain: 'bidi \u202e reversed',
  control: 'x\x9b31m\x1b[2J\x07',
  lines: 'first\nsecond \x9b2J and \u2066 more than forty characters',
  backslash: '\\\x9b',
  list: ['\x85'],
  'name\x9b2J\u202e': 'text',
});

test.each([
  ['json', (text: string): unknown => JSON.parse(text)],
  ['yaml', (text: string): unknown => parse(text)],
] as const)('%s output contains no control characters and parses to the same value', async (format, read) => {
  const text = (await valueFormatter(format))(VALUE);
  expect(text).not.toMatch(/[^\n\x20-\x7e]/);
  expect(read(text)).toEqual(VALUE);
});

test('YAML output quotes only where necessary', async () => {
  expect((await valueFormatter('yaml'))(apiObject('Job', { name: 'mnist für alle', steps: 3, left: undefined }))).toBe(
    '---\napiVersion: tony-ts/v1\nkind: Job\nname: mnist für alle\nsteps: 3\n',
  );
});
