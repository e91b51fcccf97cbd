import { counted, formatBytes } from '../../conf/values/quantities.ts';
import { shortTime } from '../terminal/clock.ts';
import { type FittedColumn, fittedTable } from '../terminal/fitted-table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { CacheContent } from './cached-folders.ts';
import type { CacheEntry } from './prune-cache.ts';

const COLUMNS: readonly FittedColumn<CacheEntry>[] = [
  { title: 'HOLDS', cell: ({ contents }) => contentText(contents), keep: 4, least: 8 },
  { title: 'SIZE', cell: ({ bytes }) => formatBytes(bytes), align: 'right', keep: 5 },
  { title: 'WRITTEN', cell: ({ writtenAt }) => day(writtenAt), keep: 1 },
  { title: 'LAST USED BY', cell: ({ lastUse }) => lastUse?.id ?? 'unused', keep: 3, least: 12 },
  {
    title: 'USED',
    cell: ({ lastUse, usedBy }) => (usedBy.length > 0 ? 'now' : lastUse === null ? '-' : day(lastUse.createdAt)),
    style: ({ usedBy }) => (usedBy.length > 0 ? 'green' : undefined),
    keep: 2,
  },
];

/** Returns one line per entry, clipped to the terminal width, followed by a line with the total size. */
export function cacheTable(entries: readonly CacheEntry[], terminal: Terminal): string[] {
  if (entries.length === 0) {
    return ['The cache is empty.'];
  }
  const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
  return [...fittedTable(entries, COLUMNS, terminal), '', `${entryCount(entries.length)}, ${formatBytes(bytes)}`];
}

export function entryText({ contents, hash, bytes, writtenAt, lastUse }: CacheEntry): string {
  const used = lastUse === null ? 'unused' : `last used by ${lastUse.id} on ${day(lastUse.createdAt)}`;
  return `${contentText(contents)} ${hash.slice(0, 8)} (${formatBytes(bytes)}, written ${day(writtenAt)}, ${used})`;
}

export function entryCount(count: number): string {
  return counted(count, 'entry', 'entries');
}

function contentText(contents: readonly CacheContent[]): string {
  return contents
    .map(({ kind, name }) => (kind === 'data' || kind === 'file' || kind === 'unfinished' ? `${kind} ${name}`.trim() : kind))
    .join(', ');
}

function day(ms: number): string {
  return shortTime(ms).slice(0, 10);
}
