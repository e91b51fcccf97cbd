import { describe, expect, test } from 'vitest';
import { columnConverter, selectColumns } from './table-values.ts';
import type { TableValue, ValueKind } from './value-kinds.ts';

const PLACE: ValueKind = {
  fields: [
    { name: 'x', kind: 'double' },
    { name: 'inner', kind: { fields: [{ name: '__proto__', kind: 'text' }] } },
    { name: 'tags', kind: { list: { fields: [{ name: 'n', kind: 'integer' }] } } },
  ],
};
const WHOLE = { x: 1, inner: Object.fromEntries([['__proto__', 'p']]), tags: [{ n: 1 }] };

function convert(kind: ValueKind, stored: unknown, fill?: TableValue): TableValue {
  return columnConverter({ name: 'c', kind }, fill === undefined ? {} : { fill: { c: fill } }, 'file')(stored);
}

describe('fill', () => {
  const fill = { x: 0, inner: Object.fromEntries([['__proto__', 'q']]), tags: { n: -1 } };

  test('replaces missing values at any depth of a struct', () => {
    expect(convert(PLACE, [1, ['p'], [[1]]], fill)).toEqual(WHOLE);
    expect(convert(PLACE, [null, ['p'], [[1], [null]]], fill)).toEqual({ ...WHOLE, x: 0, tags: [{ n: 1 }, { n: -1 }] });
    expect(Object.entries((convert(PLACE, [1, [null], []], fill) as typeof WHOLE).inner)).toEqual([['__proto__', 'q']]);
    expect(convert(PLACE, null, { ...fill, tags: [] })).toEqual({ x: 0, inner: fill.inner, tags: [] });
  });

  test('replaces missing lists and missing items', () => {
    expect(convert({ list: 'integer' }, null, [7])).toEqual([7]);
    expect(convert({ list: 'integer' }, [1, null], 7)).toEqual(Int32Array.of(1, 7));
    expect(convert({ list: 'text' }, ['a', null], 'b')).toEqual(['a', 'b']);
  });

  test.each<[ValueKind, unknown, TableValue | undefined, string]>([
    [PLACE, [null, ['p'], []], undefined, 'column c.x has no value; select other columns, or set a replacement: fill: { c: { x: ... } }'],
    [PLACE, [1, [null], []], { x: 0 }, 'column c.inner.__proto__ has no value'],
    [PLACE, [1, ['p'], [[null]]], undefined, 'column c.tags.n has no value'],
    [PLACE, null, { x: 0 }, 'column c.inner has no value'],
    [PLACE, null, { y: 0 }, 'file: column c has no field y, which `fill` names'],
    [{ list: 'float' }, [null], undefined, 'a list in column c contains a missing value; set a replacement: fill: { c: ... }'],
    [{ list: 'float' }, null, 1, 'column c has no list; `fill` replaces either missing lists (by a list) or missing items (by a value)'],
    [{ list: 'float' }, [null], [1], 'a list in column c contains a missing value; `fill` replaces either missing lists'],
    ['null', null, undefined, 'column c has no value'],
  ])('an error about %j names the place, and the form of fill that helps', (kind, stored, replacement, message) => {
    expect(() => convert(kind, stored, replacement)).toThrow(message);
  });

  test('a column may have the name of a property that all objects inherit', () => {
    const converter = columnConverter({ name: 'constructor', kind: 'integer' }, { fill: {} }, 'file');
    expect(() => converter(null)).toThrow('column constructor has no value');
  });
});

test('two columns of one name are refused, unless neither is selected', () => {
  const all = ['a', 'b', 'a'].map((name) => ({ name }));
  expect(() => selectColumns(all, {}, 'file')).toThrow('file has two columns called a');
  expect(() => selectColumns(all, { columns: ['a'] }, 'file')).toThrow('file has two columns called a');
  expect(selectColumns(all, { columns: ['b'] }, 'file')).toEqual([{ name: 'b' }]);
});
