import * as z from 'zod';
import { parseJson } from '../../platform/json-value.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';

/*
 * Results of the last `tony-ts doctor --probe` for each node, in `<staging root>/nodes.json`. Submissions use them to determine which
 * Python packages the nodes cannot load.
 */

const recordedNode = z.object({
  node: z.string(),
  label: z.string().nullable(),
  /** When the node was probed, in ms since the epoch. */
  probedAt: z.number(),
  machine: z.string(),
  glibc: z.string(),
  /** Installed Python versions, such as `3.11`. */
  pythons: z.array(z.string()),
});
const recordSchema = z.object({ version: z.literal(1), nodes: z.array(recordedNode) });

export type RecordedNode = z.output<typeof recordedNode>;

const FILE_MODE = 0o600;

/** Returns the recorded nodes, or an empty list if no probe has run or another version of tony-ts wrote the record. */
export async function readNodeRecord(storage: Pick<Storage, 'read'>, root: string): Promise<readonly RecordedNode[]> {
  const bytes = await readIfStored(storage, placeOf(root));
  return recordSchema.safeParse(parseJson(bytes?.toString('utf8') ?? '')).data?.nodes ?? [];
}

/** Adds nodes to the record. A new entry replaces the older entry for the same node. */
export async function recordNodes(storage: Storage, root: string, nodes: readonly RecordedNode[]): Promise<void> {
  const names = new Set(nodes.map(({ node }) => node));
  const others = (await readNodeRecord(storage, root)).filter(({ node }) => !names.has(node));
  const record: z.input<typeof recordSchema> = { version: 1, nodes: [...others, ...nodes] };
  await storage.write(placeOf(root), Buffer.from(JSON.stringify(record)), { permission: FILE_MODE });
}

function placeOf(root: string): string {
  return joinUri(root, 'nodes.json');
}
