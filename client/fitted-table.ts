import { clip, harmless, type Style, type Terminal } from './terminal.ts';
import { padTo, widthOf } from './text-width.ts';

export interface FittedColumn<Row> {
  readonly title: string;
  readonly cell: (row: Row) => string;
  readonly align?: 'left' | 'right';
  readonly style?: (row: Row) => Style | undefined;
  /** Where there is no room a column is cut down to this; as wide as its title unless told. */
  readonly least?: number;
  /** A column that does not fit even so is left out; the one with the lowest `keep` goes first. */
  readonly keep: number;
  /** Left out where it says nothing of any row. */
  readonly when?: (rows: readonly Row[]) => boolean;
}

interface Fitted<Row> {
  readonly column: FittedColumn<Row>;
  readonly cells: readonly string[];
  readonly width: number;
}

const GAP = 2;

/** A line of titles and a line for each row, none wider than the terminal: columns are cut down, and then left out, the least needed first. */
export function fittedTable<Row>(rows: readonly Row[], columns: readonly FittedColumn<Row>[], terminal: Terminal): string[] {
  const fitted = within(
    columns
      .filter(({ when }) => when?.(rows) ?? true)
      .map((column) => {
        const cells = rows.map((row) => harmless(column.cell(row)).replace(/[\t\n]+/g, ' '));
        return { column, cells, width: cells.reduce((widest, cell) => Math.max(widest, widthOf(cell)), column.title.length) };
      }),
    Math.max(20, terminal.columns - 1),
  );
  const gap = ' '.repeat(GAP);
  const title = fitted.map(({ column, width }) => padTo(column.title, width, column.align)).join(gap);
  const lines = rows.map((row, at) =>
    fitted
      .map(({ column, cells, width }) => {
        const cell = padTo(clip(cells[at] ?? '', width), width, column.align);
        const style = column.style?.(row);
        return style === undefined ? cell : terminal.paint(style, cell);
      })
      .join(gap)
      .trimEnd(),
  );
  return [terminal.paint('dim', title.trimEnd()), ...lines];
}

function within<Row>(all: readonly Fitted<Row>[], width: number): readonly Fitted<Row>[] {
  let columns = all;
  const excess = (): number => columns.reduce((sum, { width: wide }) => sum + wide + GAP, -GAP) - width;
  const leastFirst = all.map(({ column }) => column).toSorted((a, b) => a.keep - b.keep);
  for (const expendable of leastFirst) {
    const over = excess();
    if (over <= 0) break;
    const { least = expendable.title.length } = expendable;
    columns = columns.map((each) =>
      each.column === expendable ? { ...each, width: Math.max(Math.min(each.width, least), each.width - over) } : each,
    );
  }
  for (const expendable of leastFirst.slice(0, -1)) {
    if (excess() <= 0) break;
    columns = columns.filter(({ column }) => column !== expendable);
  }
  // What is left is the one column that nothing goes without.
  const over = excess();
  return over <= 0 ? columns : columns.map((each) => ({ ...each, width: Math.max(1, each.width - over) }));
}
