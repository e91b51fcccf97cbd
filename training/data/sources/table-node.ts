import { batchOfRows, joinPlaces, type RowPlace } from '../formats/tables/table-part.ts';
import type { TableRow } from '../formats/tables/table-values.ts';
import type { DatasetNode } from '../reading/read-context.ts';
import { batchNode } from '../transforms/batch.ts';
import { chunkMapNode } from '../transforms/map.ts';

/** Yields rows as objects, or batches of them without an object for each row. */
export function tableNode(places: DatasetNode<RowPlace>): DatasetNode<TableRow> {
  const rows = chunkMapNode(places, (items) => joinPlaces(items).flatMap(({ part, from, to }) => part.rows(from, to)));
  return {
    open: (context, from) => rows.open(context, from),
    batched: (size, dropRemainder) => batchNode(places, size, dropRemainder, (items, first) => batchOfRows(joinPlaces(items), first)),
  };
}
