import type { JobStatus, OrphanedContainer } from './status.ts';
import { formatDuration } from './values/units.ts';

/** Maximum number of tasks in a sentence; further tasks are counted. */
const MOST_NAMED = 5;

/**
 * Describes the programs that may still be running although YARN considers their containers lost, in one sentence per node. `now` (ms
 * since the epoch) matters only for a finished job: its last status gives the time that remained when the job ended.
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
    const group = groups.get(key);
    if (group === undefined) {
      groups.set(key, [container]);
    } else {
      group.push(container);
    }
  }
  return [...groups.values()].map((group) => sentenceOf(group, passed));
}

function sentenceOf(group: readonly OrphanedContainer[], passed: number): string {
  const longest = Math.max(...group.map(({ mayRunForMs }) => mayRunForMs)) - passed;
  const { node, attached } = group[0] as OrphanedContainer;
  const [containers, executors] = group.length === 1 ? ['container', 'its executor'] : ['containers', 'their executors'];
  const subject = `${listOf(group.map(nameOf))} may still run on ${node}`;
  const givenUp = `YARN has given up the ${containers} on it`;
  return attached
    ? `${subject}: ${givenUp}; ${executors} ${group.length === 1 ? 'was' : 'were'} ordered to stop.`
    : `${subject} for up to ${formatDuration(1000 * Math.ceil(longest / 1000))}: ${givenUp}, and ${executors} ${group.length === 1 ? 'is' : 'are'} not reachable.`;
}

function nameOf({ role, index }: OrphanedContainer): string {
  return index === null ? `a task of role ${role}` : `${role}:${index}`;
}

/** `a`, `a and b`, `a, b and c`, `a, b, c, d, e and 7 more`. */
function listOf(names: readonly string[]): string {
  const shown = names.length > MOST_NAMED ? [...names.slice(0, MOST_NAMED), `${names.length - MOST_NAMED} more`] : names;
  return shown.length < 2 ? shown.join('') : `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
}
