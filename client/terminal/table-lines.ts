import { clip, harmless, type Style, type Terminal } from './terminal.ts';
import { padTo, widthOf } from './text-width.ts';

export interface TableColumn<Row> {
  readonly title: string;
  readonly cell: (row: Row) => string;
  readonly align?: 'left' | 'right';
  readonly style?: (row: Row) => Style;
  /** Whether this column shrinks when the lines are too long for the terminal. */
  readonly flexible?: boolean;
}

const GAP = '  ';
const LEAST_FLEXIBLE = 8;

/** Formats a header and one line per row; the flexible column shrinks to fit the terminal. */
export function tableLines<Row>(rows: readonly Row[], columns: readonly TableColumn<Row>[], terminal: Terminal): string[] {
  const texts = rows.map((row) => columns.map(({ cell }) => harmless(cell(row)).replace(/\s+/g, ' ')));
  const widths = columns.map(({ title }, index) => Math.max(title.length, ...texts.map((cells) => widthOf(cells[index] ?? ''))));
  const excess = widths.reduce((sum, width) => sum + width, GAP.length * (columns.length - 1)) - (terminal.columns - 1);
  const flexible = columns.findIndex((column) => column.flexible);
  if (excess > 0 && flexible >= 0) widths[flexible] = Math.max(LEAST_FLEXIBLE, (widths[flexible] ?? 0) - excess);
  const line = (cells: readonly string[], paint: (index: number, text: string) => string): string =>
    cells
      .map((cell, index) => {
        const width = widths[index] ?? 0;
        const cut = clip(cell, width);
        return paint(index, padTo(cut, width, columns[index]?.align));
      })
      .join(GAP)
      .trimEnd();
  const title = terminal.paint(
    'dim',
    line(
      columns.map((column) => column.title),
      (_, text) => text,
    ),
  );
  return [
    title,
    ...rows.map((row, number) =>
      line(texts[number] ?? [], (index, text) => {
        const style = columns[index]?.style?.(row);
        return style === undefined ? text : terminal.paint(style, text);
      }),
    ),
  ];
}
