import { clip, harmless, type Style, type Terminal } from './terminal.ts';
import { padTo, widthOf } from './text-width.ts';

export interface FittedColumn<Row> {
  readonly title: string;
  readonly cell: (row: Row, rows: readonly Row[]) => string;
  readonly align?: 'left' | 'right';
  readonly style?: (row: Row) => Style | undefined;
  /** Minimum width of a column that may shrink. A column without a minimum width is shown in full or not at all. */
  readonly least?: number;
  /** Priority of the column. The column with the lowest priority shrinks or disappears first. */
  readonly keep: number;
  /** Returns true if the table contains the column for these rows; default: always. */
  readonly when?: (rows: readonly Row[]) => boolean;
}

interface Fitted<Row> {
  readonly column: FittedColumn<Row>;
  readonly cells: readonly string[];
  readonly width: number;
}

const GAP = 2;

/** Returns a header and one line per row. If the table is too wide, columns shrink or disappear, lowest priority first. */
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
 * First shrinks columns with a `least` width and removes the others, by priority. Then removes more columns if necessary, and distributes
 * the remaining width.
 */
function within<Row>(all: readonly Fitted<Row>[], width: number): readonly Fitted<Row>[] {
  let columns = all;
  const excess = (): number => columns.reduce((sum, { width: wide }) => sum + wide + GAP, -GAP) - width;
  const leastFirst = all.map(({ column }) => column).toSorted((a, b) => a.keep - b.keep);
  const expendable = leastFirst.slice(0, -1);
  for (const next of leastFirst) {
    const over = excess();
    if (over <= 0) {
      return columns;
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
  // The column with the highest priority always remains, although it may be too wide.
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
