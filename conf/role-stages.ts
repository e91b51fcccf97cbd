import type { Job } from './job.ts';
import { conditionsOf, inGang } from './role-conditions.ts';

/** Maximum number of stages. If there are more, `stagesOf` assumes that all of the job's roles run at the same time. */
const MOST_STAGES = 100;

/**
 * Returns the sets of roles that may have containers at the same time. A role with `after` receives containers only after the roles that it
 * waits for have succeeded and released their containers (see application-master/job/role-order.ts). Omits sets that are part of another
 * set.
 */
export function stagesOf(job: Pick<Job, 'roles'>): string[][] {
  const ended = new Map(job.roles.map(({ name }) => [name, endedBefore(job, name)]));
  const exclude = (one: string, other: string): boolean => ended.get(one)?.has(other) === true || ended.get(other)?.has(one) === true;
  let stages: string[][] = [[]];
  for (const { name } of job.roles) {
    const joined = stages.map((stage) => [...stage.filter((other) => !exclude(name, other)), name]);
    stages = largest([...joined, ...stages.filter((stage) => stage.some((other) => exclude(name, other)))]);
    if (stages.length > MOST_STAGES) {
      return [job.roles.map((role) => role.name)];
    }
  }
  return stages;
}

/** Returns the roles that must have ended before this role starts. */
function endedBefore(job: Pick<Job, 'roles'>, name: string): ReadonlySet<string> {
  const ended = new Set<string>();
  for (const role of job.roles.filter((each) => each.name === name)) {
    for (const condition of conditionsOf(job, role)) {
      const isRanked = job.roles.some((each) => each.name === condition.role && each.ranked);
      // All ranked roles succeed at the same time, and parameter servers end with them.
      const succeeded = job.roles.filter((each) => (isRanked ? inGang(each) : each.name === condition.role));
      for (const each of [
        ...endedBefore(job, condition.role),
        ...(condition.state === 'succeeded' ? succeeded.map((other) => other.name) : []),
      ]) {
        ended.add(each);
      }
    }
  }
  return ended;
}

function largest(sets: readonly string[][]): string[][] {
  const isPart = (one: readonly string[], other: readonly string[]): boolean => one.every((each) => other.includes(each));
  return sets.filter((set, at) => !sets.some((other, index) => index !== at && isPart(set, other) && (index < at || !isPart(other, set))));
}
