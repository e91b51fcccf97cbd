import { formatDuration } from '../values/units.ts';
import type { JobStatus, OrphanedContainer } from './status.ts';

const MOST_NAMED = 5;

/**
 * Lists the programs that may still be running in containers that YARN considers lost. Returns one sentence per node.
 * @param now current time in ms since the epoch. For a finished job, the remaining run times are computed from it.
 */
export function orphanTexts(
  { orphanedContainers, finishedAt }: Pick<JobStatus, 'orphanedContainers' | 'finishedAt'>,
  now: number,
): string[] {
  const passed = finishedAt === null ? 0 : Math.max(0, now - finishedAt);
  const groups = new Map<string, OrphanedContainer[]>();
  for (const container of orphanedContainers) {
    if (container.mayRunForMs <= passed) {
      continue;
    }
    const key = `${container.attached} ${container.node}`;
    groups.set(key, [...(groups.get(key) ?? []), container]);
  }
  return [...groups.values()].map((group) => sentenceOf(group, passed));
}

function sentenceOf(group: readonly OrphanedContainer[], passed: number): string {
  const longest = Math.max(...group.map(({ mayRunForMs }) => mayRunForMs)) - passed;
  const { node, attached } = group[0] as OrphanedContainer;
  const isOne = group.length === 1;
  const subject = `${listOf(group.map(nameOf))} may still be running on ${node}`;
  const lost = `YARN considers ${isOne ? 'its container' : 'their containers'} lost`;
  return attached
    ? `${subject}: ${lost}; ${isOne ? 'its executor was' : 'their executors were'} ordered to stop.`
    : `${subject} for up to ${formatDuration(1000 * Math.ceil(longest / 1000))}: ${lost}, and ${isOne ? 'its executor is' : 'their executors are'} not reachable.`;
}

function nameOf({ role, index }: OrphanedContainer): string {
  return index === null ? `a task of role ${role}` : `${role}:${index}`;
}

function listOf(names: readonly string[]): string {
  const shown = names.length > MOST_NAMED ? [...names.slice(0, MOST_NAMED), `${names.length - MOST_NAMED} more`] : names;
  return shown.length < 2 ? shown.join('') : `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
}
