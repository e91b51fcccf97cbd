import type { EndAfter, Role, RoleCondition } from '../job.ts';
import { inGang } from '../role-conditions.ts';
import type { YamlProblem } from '../yaml-file.ts';

// Rules for the order in which roles start and end. A role with `after` waits for other roles, and a role with `endAfter` ends after other
// roles. The tasks of the gang start together, so all roles with ranks wait together.

/** Properties of a role that the rules need. They exist both before and after the job is resolved. */
export type OrderedRole = Pick<Role, 'name' | 'after' | 'tracking' | 'chief' | 'ranked' | 'servesParameters'> & {
  readonly endAfter: Pick<EndAfter, 'roles'> | null;
};

/** Reports `after` and `endAfter` settings that can never be satisfied. Each problem's path starts with the role name. */
export function orderProblems(roles: readonly OrderedRole[], success: 'all' | 'chief'): YamlProblem[] {
  const mistakes = roles.flatMap((role) => [...unreachable(role, roles, success), ...endless(role, roles)]);
  return mistakes.length > 0 ? mistakes : circles(roles);
}

function unreachable(role: OrderedRole, roles: readonly OrderedRole[], success: 'all' | 'chief'): YamlProblem[] {
  const problems = role.after.flatMap((condition) => {
    const message = impossible(role, condition, roles);
    return message === null ? [] : [{ path: [role.name, 'after'], message }];
  });
  if (problems.length > 0 || role.tracking === 'tracked') {
    return problems.length > 0 || success === 'all' ? problems : neverStarts(role, roles, success);
  }
  return neverStarts(role, roles, success);
}

function impossible(role: OrderedRole, { role: name, state }: RoleCondition, roles: readonly OrderedRole[]): string | null {
  const other = roles.find((each) => each.name === name);
  if (other === undefined) {
    return unknown(name, roles);
  }
  if (other.name === role.name) {
    return 'a role cannot wait for itself';
  }
  if (inGang(role) && inGang(other)) {
    return `\`${role.name}\` and \`${name}\` belong to the gang, whose tasks start together: write \`ranked: false\` for one of them`;
  }
  return other.servesParameters && state === 'succeeded'
    ? `parameter servers end with the ranked tasks: wait for a ranked role, or write \`state: running\``
    : null;
}

/** Reports a role that would never start, because the job ends as soon as the roles for which it waits have succeeded. */
function neverStarts(role: OrderedRole, roles: readonly OrderedRole[], success: 'all' | 'chief'): YamlProblem[] {
  const deciding = roles.filter(({ tracking, chief }) => (success === 'chief' ? chief : tracking === 'tracked'));
  const awaited = role.after.filter(({ state }) => state === 'succeeded').map((condition) => condition.role);
  // All ranked tasks succeed at the same time.
  const gang = roles.some((each) => each.ranked && awaited.includes(each.name));
  const ends = deciding.every((each) => each.name !== role.name && (awaited.includes(each.name) || (gang && each.ranked)));
  if (deciding.length === 0 || !ends) {
    return [];
  }
  const names = deciding.map(({ name }) => `\`${name}\``).join(' and ');
  const remedy = success === 'chief' ? 'write `success: all`' : 'remove `sidecar` and `untracked`';
  return [{ path: [role.name, 'after'], message: `the job ends when ${names} succeeds, so this role would never start: ${remedy}` }];
}

function endless({ name, endAfter }: OrderedRole, roles: readonly OrderedRole[]): YamlProblem[] {
  return (endAfter?.roles ?? []).flatMap((awaited) => {
    const other = roles.find((each) => each.name === awaited);
    const message =
      other === undefined
        ? unknown(awaited, roles)
        : other.name === name
          ? 'a role cannot end after itself'
          : other.servesParameters
            ? `the parameter servers \`${awaited}\` end with the ranked tasks: name the role that trains`
            : null;
    return message === null ? [] : [{ path: [name, 'endAfter'], message }];
  });
}

function unknown(name: string, roles: readonly OrderedRole[]): string {
  return `there is no role \`${name}\` (roles: ${roles.map((role) => role.name).join(', ')})`;
}

/** Reports each role that waits for itself indirectly, through other roles. Treats the gang as a single role. */
function circles(roles: readonly OrderedRole[]): YamlProblem[] {
  const gang = roles.filter(inGang);
  const together = (role: OrderedRole) => (inGang(role) ? gang : [role]);
  const reaches = (from: OrderedRole, goal: OrderedRole, seen: ReadonlySet<string>): string[] | null => {
    for (const member of together(from)) {
      for (const { role: name } of member.after) {
        const next = roles.find((each) => each.name === name);
        if (next === undefined || seen.has(name)) {
          continue;
        }
        const rest = together(goal).includes(next) ? [] : reaches(next, goal, new Set([...seen, name]));
        if (rest !== null) {
          return [name, ...rest];
        }
      }
    }
    return null;
  };
  return roles
    .filter(({ after }) => after.length > 0)
    .flatMap((role) => {
      const way = reaches(role, role, new Set());
      return way === null
        ? []
        : [{ path: [role.name, 'after'], message: `the roles wait for each other: ${[role.name, ...way].join(' waits for ')}` }];
    })
    .slice(0, 1);
}
