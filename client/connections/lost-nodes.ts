import type { HistoryEntry } from '../../conf/status.ts';
import { fullTime } from '../terminal/clock.ts';

/** A node that the cluster lost while the job had containers on it. */
export interface LostNode {
  /** host:port of the NodeManager. */
  readonly node: string;
  /** ms since the epoch. */
  readonly at: number;
}

/** Maximum number of losses in a line of text; the line states only the number of older losses. */
const MOST_NAMED = 6;

/** Returns the nodes that a job lost, in order of loss; a node may appear more than once. */
export function lostNodes(entries: readonly HistoryEntry[]): LostNode[] {
  return entries.flatMap(({ at, event, node }) => (event === 'node-lost' && node !== undefined ? [{ node, at }] : []));
}

/** Formats losses as `node2:8041 at 2026-11-21 14:03:44, node3:8041 at ...`; empty if no node was lost. */
export function lostNodesText(lost: readonly LostNode[]): string {
  const named = lost.slice(-MOST_NAMED).map(({ node, at }) => `${node} at ${fullTime(at)}`);
  const more = lost.length - named.length;
  return [...(more > 0 ? [`${more} earlier`] : []), ...named].join(', ');
}
