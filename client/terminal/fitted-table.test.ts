import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type FittedColumn, fittedTable } from './fitted-table.ts';
import { terminalOf } from './terminal.ts';
import { widthOf } from './text-width.ts';

const plain = (columns: number) => terminalOf({ isTTY: true, columns }, { NO_COLOR: '1' });
interface Row {
  readonly id: string;
  readonly name: string;
  readonly size: string;
}
const COLUMNS: readonly FittedColumn<Row>[] = [
  { title: 'ID', cell: ({ id }) => id, least: 13, keep: 3 },
  { title: 'NAME', cell: ({ name }) => name, least: 8, keep: 1 },
  { title: 'SIZE', cell: ({ size }) => size, align: 'right', least: 4, keep: 2, when: (rows) => rows.some(({ size }) => size !== '') },
];
const ROWS = [
  { id: 'application_1', name: 'a rather long name', size: '5' },
  { id: 'application_2', name: 'b\u001b[31m\nc', size: '100' },
];

test('a narrow terminal shortens the least important column first, then omits it', () => {
  expect(fittedTable(ROWS, COLUMNS, plain(80))).toEqual([
    'ID             NAME                SIZE',
    'application_1  a rather long name     5',
    'application_2  b c                  100',
  ]);
  expect(fittedTable(ROWS, COLUMNS, plain(32))[1]).toBe('application_1  a rather …     5');
  expect(fittedTable(ROWS, COLUMNS, plain(25))).toEqual(['ID             SIZE', 'application_1     5', 'application_2   100']);
});

test('a column that cannot be shortened is omitted before a more important column is shortened', () => {
  const columns: readonly FittedColumn<Row>[] = [
    { title: 'ID', cell: ({ id }) => id, keep: 3 },
    { title: 'NAME', cell: ({ name }) => name, least: 4, keep: 2 },
    { title: 'SIZE', cell: ({ size }) => size, align: 'right', keep: 1 },
  ];
  expect(fittedTable(ROWS, columns, plain(34))[1]).toBe('application_1  a rather long name');
  expect(fittedTable(ROWS, columns, plain(30))[1]).toBe('application_1  a rather long…');
});

test('a shortened column gets the width of a column that was omitted after it', () => {
  const columns: readonly FittedColumn<Row>[] = [
    { title: 'ID', cell: ({ id }) => id, keep: 3 },
    { title: 'NAME', cell: ({ name }) => name, least: 4, keep: 1 },
    { title: 'SIZE', cell: ({ size }) => size, align: 'right', keep: 2 },
  ];
  const rows = [{ id: 'application_1', name: 'a rather long name', size: '1 h 2 min 3 s' }];
  expect(fittedTable(rows, columns, plain(34))[1]).toBe('application_1  a rather long name');
});

test('omits a column that has no value in any row', () => {
  expect(fittedTable([{ id: 'a', name: 'b', size: '' }], COLUMNS, plain(80))).toEqual(['ID  NAME', 'a   b']);
  expect(fittedTable([], COLUMNS, plain(80))).toEqual(['ID  NAME']);
});

test("no line exceeds the terminal's width or contains control characters", () => {
  const text = fc.string({ unit: 'binary', maxLength: 60 });
  fc.assert(
    fc.property(
      fc.array(fc.record({ id: text, name: text, size: text }), { maxLength: 8 }),
      fc.integer({ min: 21, max: 200 }),
      (rows, columns) => {
        expect(fittedTable(rows, COLUMNS, plain(columns)).filter((line) => widthOf(line) >= columns || /\p{Cc}/u.test(line))).toEqual([]);
      },
    ),
  );
});
