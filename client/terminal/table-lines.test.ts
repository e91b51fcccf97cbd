import { expect, test } from 'vitest';
import { tableLines } from './table-lines.ts';
import type { Terminal } from './terminal.ts';

const terminal = (columns: number): Terminal => ({ live: false, columns, rows: 24, paint: (_, text) => text });
const ROWS = [
  { id: 'a1', name: 'a rather long name', size: 5 },
  { id: 'a22', name: 'b\u001b[31m\nc', size: 100 },
];
const COLUMNS = [
  { title: 'ID', cell: ({ id }: (typeof ROWS)[number]) => id },
  { title: 'NAME', cell: ({ name }: (typeof ROWS)[number]) => name, flexible: true },
  { title: 'SIZE', cell: ({ size }: (typeof ROWS)[number]) => String(size), align: 'right' as const },
];

test('cells stand below their titles, and what comes from elsewhere is made harmless', () => {
  expect(tableLines(ROWS, COLUMNS, terminal(80))).toEqual([
    'ID   NAME                SIZE',
    'a1   a rather long name     5',
    'a22  b c                  100',
  ]);
});

test('the flexible column gives way on a narrow terminal', () => {
  const lines = tableLines(ROWS, COLUMNS, terminal(24));
  expect(lines).toEqual(['ID   NAME          SIZE', 'a1   a rather lo…     5', 'a22  b c            100']);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(25);
});
