import { type BatchRows, batchOfRows, haveSameColumns, joinPlaces, type RowPlace } from '../formats/tables/table-part.ts';
import type { DatasetNode } from '../reading/read-context.ts';
import { batchNode } from '../transforms/batch.ts';
import { collate } from '../transforms/collate.ts';
import { chunkMapNode } from '../transforms/map.ts';

type Fields = Readonly<Record<string, unknown>>;

/**
 * Yields rows as objects, or batches of them without an object for each row.
 * @param labels the columns that become `ys`. Without any, an element is the row itself instead of `{ xs, ys }`.
 */
export function tableNode(places: DatasetNode<RowPlace>, labels: ReadonlySet<string> = new Set()): DatasetNode<Fields> {
  const elementOf = (fields: Fields): Fields => {
    const part = (isLabel: boolean) => Object.fromEntries(Object.entries(fields).filter(([name]) => labels.has(name) === isLabel));
    return labels.size === 0 ? fields : { xs: part(false), ys: part(true) };
  };
  const pathOf = (name: string) => (labels.size === 0 ? name : `${labels.has(name) ? 'ys' : 'xs'}.${name}`);
  const elementsOf = (rows: readonly BatchRows[]) => rows.flatMap(({ part, from, to }) => part.rows(from, to)).map(elementOf);
  const toBatch = (items: readonly RowPlace[], first: number) => {
    const rows = joinPlaces(items);
    return haveSameColumns(rows) ? elementOf(batchOfRows(rows, first, pathOf)) : collate<unknown>(elementsOf(rows), first);
  };
  const elements = chunkMapNode(places, (items) => elementsOf(joinPlaces(items)));
  return {
    open: (context, from) => elements.open(context, from),
    batched: (size, dropRemainder) => batchNode(places, size, dropRemainder, toBatch),
  };
}
