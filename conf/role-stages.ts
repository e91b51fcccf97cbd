import type { Job, Role } from './job.ts';
import { conditionsOf, inGang } from './role-conditions.ts';

/** Maximum number of stages. If there are more, `stagesOf` assumes that all of the job's roles run at the same time. */
const MOST_STAGES = 100;

/**
 * Returns the sets of roles that may have containers at the same time. A role with `after` receives containers only after the roles that it
 * waits for have succeeded and released their containers (see application-master/job/role-order.ts). Omits sets that are part of another
 * set.
 */
export function stagesOf(job: Pick<Job, 'roles'>): string[][] {
  const ended = endedBefore(job);
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

/** Returns, for each role, the roles that must have ended before it starts. Follows each condition once. */
function endedBefore({ roles }: Pick<Job, 'roles'>): ReadonlyMap<string, ReadonlySet<string>> {
  const named = new Map(roles.map((role) => [role.name, role]));
  const gang = new Set(roles.filter(inGang).map(({ name }) => name));
  const known = new Map<string, Set<string>>();
  const before = (role: Role): ReadonlySet<string> => {
    const found = known.get(role.name);
    if (found !== undefined) {
      return found;
    }
    const ended = new Set<string>();
    // The conditions of every role in the gang apply to the whole gang.
    for (const name of inGang(role) ? gang : [role.name]) {
      known.set(name, ended);
    }
    for (const { role: name, state } of conditionsOf({ roles }, role)) {
      const awaited = named.get(name);
      if (awaited === undefined) {
        continue;
      }
      // All ranked roles succeed at the same time, and parameter servers end with them.
      const succeeded = state === 'running' ? [] : awaited.kind === 'gang' ? gang : [name];
      for (const each of [...before(awaited), ...succeeded]) {
        ended.add(each);
      }
    }
    return ended;
  };
  return new Map(roles.map((role) => [role.name, before(role)]));
}

function largest(stages: readonly string[][]): string[][] {
  const sets = stages.map((stage) => new Set(stage));
  const isPart = (one: readonly string[], other: ReadonlySet<string>): boolean =>
    one.length <= other.size && one.every((each) => other.has(each));
  return stages.filter(
    (stage, at) => !sets.some((other, index) => index !== at && isPart(stage, other) && (index < at || other.size > stage.length)),
  );
}
