import type { Quotas } from '../conf/quota-schema.ts';
import { formatDuration, formatMemory } from '../conf/units.ts';

/** Every limit, one a line, by its place in the site file. */
export function quotaLines(quotas: Quotas, from: string | null): string[] {
  const { over, ...scopes } = quotas;
  const limits = leavesOf(scopes, 'quotas');
  if (limits.length === 0) return [from === null ? 'There is no site file, and there are no limits.' : `${from} sets no limits.`];
  const width = Math.max(...limits.map(({ path }) => path.length));
  const waiting = over === 'wait' ? 'waits for other jobs to end' : 'fails at once';
  return [
    `set in ${from}; a job for which too little of a total is left ${waiting}`,
    ...limits.map(({ path, text }) => `${path.padEnd(width)}  ${text}`),
  ];
}

function leavesOf(value: object, path: string): { path: string; text: string }[] {
  return Object.entries(value).flatMap(([key, entry]: [string, unknown]) => {
    const place = `${path}.${key}`;
    if (entry === undefined) return [];
    if (Array.isArray(entry)) return [{ path: place, text: entry.length === 0 ? 'none' : entry.join(', ') }];
    if (typeof entry === 'object' && entry !== null) return leavesOf(entry, place);
    const isTime = key === 'timeout' || key === 'idle';
    return [{ path: place, text: key === 'memory' ? formatMemory(Number(entry)) : isTime ? formatDuration(Number(entry)) : String(entry) }];
  });
}
