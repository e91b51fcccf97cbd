import { suggest } from '../../platform/text/suggest.ts';
import { type EndAfter, isTracked, type Job, type Role, type RoleCondition } from '../job.ts';
import { inGang } from '../role-conditions.ts';
import type { YamlProblem } from '../yaml-file.ts';

// Rules for the order in which roles start and end. A role with `after` waits for other roles, and a role with `endAfter` ends after other
// roles. The tasks of the gang start together, so all roles with ranks wait together.

/** Properties of a role that the rules need. They exist both before and after the job is resolved. */
export type OrderedRole = Pick<Role, 'name' | 'after' | 'kind' | 'chief' | 'servesParameters'> & {
  readonly endAfter: Pick<EndAfter, 'roles'> | null;
};

/** Reports `after` and `endAfter` settings that can never be satisfied. Each problem's path starts with the role name. */
export function orderProblems(roles: readonly OrderedRole[], successPolicy: Job['successPolicy']): YamlProblem[] {
  const mistakes = roles.flatMap((role) => [...unreachable(role, roles, successPolicy), ...endless(role, roles)]);
  const waiting = mistakes.length > 0 ? mistakes : circles(roles);
  return waiting.length > 0 ? waiting : endCircles(roles);
}

function unreachable(role: OrderedRole, roles: readonly OrderedRole[], successPolicy: Job['successPolicy']): YamlProblem[] {
  const problems = role.after.flatMap((condition) => {
    const message = impossible(role, condition, roles);
    return message === null ? [] : [{ path: [role.name, 'after'], message }];
  });
  if (problems.length > 0 || isTracked(role)) {
    return problems.length > 0 || successPolicy !== 'chief' ? problems : neverStarts(role, roles, successPolicy);
  }
  return neverStarts(role, roles, successPolicy);
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
    return `\`${role.name}\` and \`${name}\` belong to the gang, whose tasks start together: write \`kind: independent\` for one of them`;
  }
  return other.servesParameters && state === 'succeeded'
    ? `parameter servers end with the gang: wait for a role of kind gang, or write \`state: running\``
    : null;
}

/** Reports a role that would never start, because the job ends as soon as the roles for which it waits have succeeded. */
function neverStarts(role: OrderedRole, roles: readonly OrderedRole[], successPolicy: Job['successPolicy']): YamlProblem[] {
  const deciding = roles.filter((each) => (successPolicy === 'chief' ? each.chief : isTracked(each)));
  const awaited = role.after.filter(({ state }) => state === 'succeeded').map((condition) => condition.role);
  // All ranked tasks succeed at the same time.
  const gang = roles.some((each) => each.kind === 'gang' && awaited.includes(each.name));
  const ends = deciding.every((each) => each.name !== role.name && (awaited.includes(each.name) || (gang && each.kind === 'gang')));
  if (deciding.length === 0 || !ends) {
    return [];
  }
  const names = deciding.map(({ name }) => `\`${name}\``).join(' and ');
  const remedy = successPolicy === 'chief' ? 'write `successPolicy: all`' : 'write `kind: independent`';
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
            ? `the parameter servers \`${awaited}\` end with the gang: name the role that trains`
            : null;
    return message === null ? [] : [{ path: [name, 'endAfter'], message }];
  });
}

function unknown(name: string, roles: readonly OrderedRole[]): string {
  const names = roles.map((role) => role.name);
  const meant = suggest(name, names);
  return `there is no role \`${name}\`${meant === undefined ? '' : `; did you mean \`${meant}\`?`} (roles: ${names.join(', ')})`;
}

/** A role, and one of the roles for which it waits. */
interface Wait {
  readonly from: OrderedRole;
  readonly to: OrderedRole;
}

/**
 * Reports the first role that waits for itself indirectly, through other roles. Treats the gang as a single role. Follows each wait once,
 * because the job may belong to another user.
 */
function circles(roles: readonly OrderedRole[]): YamlProblem[] {
  const named = new Map(roles.map((role) => [role.name, role]));
  const gang = roles.filter(inGang);
  const first = (role: OrderedRole): OrderedRole => (inGang(role) ? (gang[0] ?? role) : role);
  const checked = new Set<OrderedRole>();
  const positions = new Map<OrderedRole, number>();
  const way: Wait[] = [];
  const circleFrom = (start: OrderedRole): Wait[] | null => {
    if (positions.has(start)) {
      return way.slice(positions.get(start));
    }
    if (checked.has(start)) {
      return null;
    }
    checked.add(start);
    positions.set(start, way.length);
    for (const from of inGang(start) ? gang : [start]) {
      for (const to of from.after.flatMap(({ role }) => named.get(role) ?? [])) {
        way.push({ from, to });
        const circle = circleFrom(first(to));
        if (circle !== null) {
          return circle;
        }
        way.pop();
      }
    }
    positions.delete(start);
    return null;
  };
  for (const role of roles) {
    const circle = circleFrom(first(role));
    if (circle !== null) {
      const begin = circle.findIndex(({ from }) => from === roles.find((each) => circle.some((wait) => wait.from === each)));
      const rotated = [...circle.slice(begin), ...circle.slice(0, begin)];
      const names = [rotated[0]?.from, ...rotated.map(({ to }) => to)].flatMap((each) => each?.name ?? []);
      return [{ path: [names[0] ?? '', 'after'], message: `the roles wait for each other: ${names.join(' waits for ')}` }];
    }
  }
  return [];
}

/**
 * Reports the first role that ends after a role that cannot end before it: because that role ends after it as well, or because that role
 * starts only after it has succeeded. Visits each role once.
 */
function endCircles(roles: readonly OrderedRole[]): YamlProblem[] {
  const named = new Map(roles.map((role) => [role.name, role]));
  const gang = roles.filter(inGang);
  const ranked = roles.filter((role) => role.kind === 'gang');
  const conditions = (role: OrderedRole) =>
    (inGang(role) ? gang : [role]).flatMap(({ after }) => after.filter(({ state }) => state === 'succeeded'));
  /** Returns the roles that must end before this one. All ranked roles succeed at the same time. */
  const awaited = (role: OrderedRole): OrderedRole[] => [
    ...(role.endAfter?.roles ?? []).flatMap((name) => named.get(name) ?? []),
    ...conditions(role).flatMap(({ role: name }) => (named.get(name)?.kind === 'gang' ? ranked : (named.get(name) ?? []))),
  ];
  const checked = new Set<OrderedRole>();
  const way: OrderedRole[] = [];
  const circleFrom = (role: OrderedRole): OrderedRole[] | null => {
    if (way.includes(role)) {
      return way.slice(way.indexOf(role));
    }
    if (checked.has(role)) {
      return null;
    }
    checked.add(role);
    way.push(role);
    for (const next of awaited(role)) {
      const circle = circleFrom(next);
      if (circle !== null) {
        return circle;
      }
    }
    way.pop();
    return null;
  };
  for (const role of roles) {
    const circle = circleFrom(role);
    if (circle !== null) {
      const begin = Math.max(
        0,
        circle.findIndex(({ endAfter }) => endAfter !== null),
      );
      const names = [...circle.slice(begin), ...circle.slice(0, begin + 1)].map(({ name }) => name);
      return [{ path: [names[0] ?? '', 'endAfter'], message: `the roles wait for each other's end: ${names.join(' waits for ')}` }];
    }
  }
  return [];
}
