import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseYarnJson } from './yarn-json.ts';

test('shares of nothing become null', () => {
  expect(parseYarnJson('{"capacity":NaN,"used":[-Infinity, Infinity],"name":"NaN, \\"NaN\\" \\\\","n":NaN}')).toEqual({
    capacity: null,
    used: [null, null],
    name: 'NaN, "NaN" \\',
    n: null,
  });
});

test('all other text is parsed as JSON, also in strings of an answer with NaN', () => {
  const strings = fc.string({ unit: fc.constantFrom('"', '\\', 'NaN', ':', ',', '-Infinity', 'a') });
  fc.assert(
    fc.property(fc.dictionary(strings, strings), (value) => {
      const text = JSON.stringify(value);
      expect(parseYarnJson(text)).toEqual(value);
      expect(parseYarnJson(`[${text},NaN]`)).toEqual([value, null]);
    }),
  );
  expect(() => parseYarnJson('<html>')).toThrow(SyntaxError);
});
