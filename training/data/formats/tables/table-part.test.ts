import { expect, test } from 'vitest';
import { collate } from '../../transforms/collate.ts';
import { type ColumnValues, listValues, numberValues } from './column-values.ts';
import { batchOfRows, haveSameColumns, joinPlaces, placesIn, type TableColumn, TablePart } from './table-part.ts';
import { columnConverter } from './table-values.ts';
import type { ValueKind } from './value-kinds.ts';

type Stored = readonly [name: string, kind: ValueKind, values: ColumnValues];

function partOf(...columns: readonly Stored[]): TablePart {
  const own = columns.map(([name, kind]): TableColumn => ({ name, kind, convert: columnConverter({ name, kind }, {}, 'file') }));
  const stored = columns.map(([, , values]) => values);
  return new TablePart(own, stored, { order: Uint32Array.of(2, 0, 1), whereOf: (row) => `file, row ${row}` });
}

const lists = (numbers: Float32Array | Int32Array | BigInt64Array, ...offsets: number[]) =>
  listValues(offsets, offsets.length - 1, numberValues(numbers, null), null);
const floats: Stored = ['a', 'float', numberValues(Float32Array.of(1, 2, 3), null)];
const integers: Stored = ['a', 'integer', numberValues(BigInt64Array.of(-1n, 2n ** 40n + 1n, 3n), null)];
const unsigned: Stored = ['a', 'uint32', numberValues(Int32Array.of(-1, 2, 3), null)];
const flags: Stored = ['a', 'boolean', { numbers: null, list: null, rows: 3, hasNulls: false, get: (row) => row === 1 }];
const pairs: Stored = ['a', { list: 'float' }, lists(Float32Array.of(1, 2, 3, 4, 5, 6), 0, 2, 4, 6)];
const tokens: Stored = ['a', { list: 'integer' }, lists(BigInt64Array.of(1n, -2n, 3n, 4n, 5n, 6n), 0, 2, 4, 6)];
const large: Stored = ['a', { list: 'integer' }, lists(BigInt64Array.of(2n ** 31n, 1n, 1n), 0, 1, 2, 3)];
const negative: Stored = ['a', { list: 'uint32' }, lists(Int32Array.of(-1, 1, 1), 0, 1, 2, 3)];
const ragged: Stored = ['a', { list: 'float' }, lists(Float32Array.of(1, 2, 3, 4), 0, 2, 3, 4)];
const other: Stored = ['b', 'float', floats[2]];
const inexact: Stored = ['a', 'integer', numberValues(BigInt64Array.of(1n, 2n ** 60n, 3n), null)];

test.each<[string, readonly TablePart[]]>([
  ['numbers', [partOf(floats), partOf(floats)]],
  ['integers of 64 bits', [partOf(integers), partOf(unsigned)]],
  ['lists', [partOf(pairs, other), partOf(pairs, other)]],
  ['lists of integers', [partOf(tokens)]],
  ['lists of different types', [partOf(tokens), partOf(pairs)]],
  ['lists of different lengths', [partOf(ragged)]],
  ['lists of different lengths in two parts', [partOf(pairs), partOf(large)]],
  ['booleans', [partOf(flags)]],
  ['numbers and booleans', [partOf(floats), partOf(flags)]],
  ['numbers and lists', [partOf(floats), partOf(pairs)]],
  ['an integer that no number represents', [partOf(inexact)]],
  ['a list with an integer of more than 32 bits', [partOf(large)]],
  ['a list with an unsigned integer of 32 bits', [partOf(negative)]],
])('a batch of %s is the one of the rows, or the same error', (_, parts) => {
  const outcome = (batch: () => unknown) => {
    try {
      return batch();
    } catch (error) {
      return { code: (error as { code?: string }).code, message: (error as Error).message };
    }
  };
  const places = parts.flatMap((part) => placesIn(part, 0, part.size));
  const ofObjects = outcome(() =>
    collate<unknown>(
      parts.flatMap((part) => part.rows(0, part.size)),
      1,
    ),
  );
  expect(outcome(() => batchOfRows(joinPlaces(places), 1))).toEqual(ofObjects);
});

test('places that do not follow each other are not joined', () => {
  const [part, next] = [partOf(floats), partOf(floats)];
  const places = [...placesIn(part, 0, 1), ...placesIn(part, 2, 3), ...placesIn(next, 0, 2)];
  expect(joinPlaces(places)).toEqual([
    { part, from: 0, to: 1 },
    { part, from: 2, to: 3 },
    { part: next, from: 0, to: 2 },
  ]);
  expect(batchOfRows(joinPlaces(places), 1)).toEqual({ a: { values: Float32Array.of(3, 2, 3, 1), shape: [4] } });
});

test.each<[boolean, TablePart, TablePart]>([
  [true, partOf(floats, other), partOf(pairs, other)],
  [false, partOf(floats), partOf(floats, other)],
  [false, partOf(other, floats), partOf(floats, other)],
])('rows have the same columns if the names are equal: %s', (expected, part, next) => {
  expect(haveSameColumns(joinPlaces([part, next].flatMap((each) => placesIn(each, 0, 1))))).toBe(expected);
});
