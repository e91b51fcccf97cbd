import { clip, harmless, type Style, type Terminal } from './terminal.ts';
import { padTo, widthOf } from './text-width.ts';

export interface FittedColumn<Row> {
  readonly title: string;
  readonly cell: (row: Row, rows: readonly Row[]) => string;
  readonly align?: 'left' | 'right';
  readonly style?: (row: Row) => Style | undefined;
  /** Minimum width of a column that can shrink. A column without a minimum width is shown in full or not at all. */
  readonly least?: number;
  /** Priority of the column. If the table is too wide, the column with the lowest priority shrinks or disappears first. */
  readonly keep: number;
  /** Returns whether the table shows this column for these rows. By default, the table shows every column. */
  readonly when?: (rows: readonly Row[]) => boolean;
}

interface Fitted<Row> {
  readonly column: FittedColumn<Row>;
  readonly cells: readonly string[];
  readonly width: number;
}

const GAP = 2;

/** Returns a header and one line per row. If the table is too wide, columns with a low priority shrink or disappear first. */
export function fittedTable<Row>(rows: readonly Row[], columns: readonly FittedColumn<Row>[], terminal: Terminal): string[] {
  const fitted = within(
    columns
      .filter(({ when }) => when?.(rows) ?? true)
      .map((column) => {
        const cells = rows.map((row) => harmless(column.cell(row, rows)).replace(/[\t\n]+/g, ' '));
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

/**
 * Fits the columns into `width`. In order of priority, shrinks columns that have a `least` width and removes those that have none. If
 * necessary, then removes more columns. Finally, distributes the remaining width.
 */
function within<Row>(all: readonly Fitted<Row>[], width: number): readonly Fitted<Row>[] {
  let columns = all;
  const excess = (): number => columns.reduce((sum, { width: wide }) => sum + wide + GAP, -GAP) - width;
  const leastFirst = all.map(({ column }) => column).toSorted((a, b) => a.keep - b.keep);
  const expendable = leastFirst.slice(0, -1);
  for (const next of leastFirst) {
    const over = excess();
    if (over <= 0) {
      break;
    }
    const { least } = next;
    if (least === undefined && expendable.includes(next)) {
      columns = columns.filter(({ column }) => column !== next);
    } else {
      columns = resized(columns, next, (each) => Math.max(Math.min(each, least ?? next.title.length), each - over));
    }
  }
  for (const next of expendable) {
    if (excess() <= 0) {
      break;
    }
    columns = columns.filter(({ column }) => column !== next);
  }
  for (const next of leastFirst.toReversed()) {
    const natural = all.find(({ column }) => column === next)?.width ?? 0;
    columns = resized(columns, next, (each) => Math.min(natural, each + Math.max(0, -excess())));
  }
  // Keep the column with the highest priority, even if it is too wide.
  const over = excess();
  return over <= 0 ? columns : columns.map((each) => ({ ...each, width: Math.max(1, each.width - over) }));
}

function resized<Row>(
  columns: readonly Fitted<Row>[],
  which: FittedColumn<Row>,
  change: (width: number) => number,
): readonly Fitted<Row>[] {
  return columns.map((each) => (each.column === which ? { ...each, width: change(each.width) } : each));
}
