import type { HistoryEntry } from '../../../conf/status/status.ts';
import { fullTime } from '../../terminal/clock.ts';

/** A node that was lost while it was running containers for the job. */
export interface LostNode {
  /** host:port of the NodeManager. */
  readonly node: string;
  /** When the node was lost, in ms since the epoch. */
  readonly at: number;
}

/** Maximum number of lost nodes to list in one line. Earlier losses are only counted. */
const MOST_NAMED = 6;

/** Returns the lost nodes in the order in which they were lost. A node may occur more than once. */
export function lostNodes(entries: readonly HistoryEntry[]): LostNode[] {
  return entries.flatMap(({ at, type, node }) => (type === 'node-lost' && node !== undefined ? [{ node, at }] : []));
}

/** Formats the lost nodes as `node2:8041 at 2026-11-21 14:03:44, node3:8041 at ...`, or returns '' if there are none. */
export function lostNodesText(lost: readonly LostNode[]): string {
  const named = lost.slice(-MOST_NAMED).map(({ node, at }) => `${node} at ${fullTime(at)}`);
  const more = lost.length - named.length;
  return [...(more > 0 ? [`${more} earlier`] : []), ...named].join(', ');
}
