import type { Job, Role } from './job.ts';
import type { Amounts, JobLimits, Quotas, RoleLimits } from './quota-schema.ts';
import { formatDuration, formatMemory } from './values/units.ts';

/** The owner of a job. */
export interface Owner {
  readonly user: string;
  readonly groups: readonly string[];
  readonly queue: string;
}

/** The resources of a job when all its tasks run. */
export interface Demand {
  /** The total of the tasks of each role; `instances` is their number. */
  readonly roles: Readonly<Record<string, Amounts>>;
  /** The resources of the ApplicationMaster's container, which belongs to the job but to no role. */
  readonly master: Amounts;
}

/** A job as quota sums count it. */
export interface RunningJob extends Owner, Demand {
  readonly applicationId: string;
  /** Resources of the tasks that exceed the tagged demand. Their role is unknown, so they count for every role. */
  readonly beyond: Amounts;
}

/** The default container of an ApplicationMaster. Limits on single containers never forbid it, because every job needs one. */
export const DEFAULT_MASTER = { memory: 1024, vcores: 1 } as const satisfies Amounts;

/**
 * Calculates the resources of a running job: the demand in its tags, and the resources that the cluster reports beyond it.
 *
 * @param told the demand in the tags; null without valid tags.
 * @param tasks resources of its tasks according to the cluster, by the names of the site file.
 * @param master resources of its ApplicationMaster according to the cluster.
 */
export function takenBy(told: Demand | null, tasks: Amounts, master: Amounts): Pick<RunningJob, 'roles' | 'master' | 'beyond'> {
  const { roles, master: toldMaster } = told ?? { roles: {}, master: {} };
  const said = sumOf(Object.values(roles).map(inLowerCase));
  const beyond = Object.entries(inLowerCase(tasks)).flatMap(([name, amount]) => {
    const more = amount - (said[name] ?? 0);
    return more > 0 ? [[name, more] as const] : [];
  });
  return { roles, master: largest([toldMaster, master]), beyond: Object.fromEntries(beyond) };
}

/** Returns the maximum amount for each name. */
function largest(all: readonly Amounts[]): Record<string, number> {
  const most: Record<string, number> = {};
  for (const amounts of all) for (const [name, amount] of Object.entries(amounts)) most[name] = Math.max(most[name] ?? 0, amount ?? 0);
  return most;
}

/** Returns the last part of a queue's path, which users write: `root.a.b` becomes `b`. */
export function queueName(queue: string): string {
  return queue.slice(queue.lastIndexOf('.') + 1);
}

/** A limit that applies to a job, with its path in the site file. */
export interface Rule {
  /** e.g. `quotas.queues.research.roles.worker`. */
  readonly path: string;
  readonly limits: RoleLimits;
  /** The role that the limit counts; null for the whole job. */
  readonly role: string | null;
  /** Whether a running job of this owner counts towards the total. */
  readonly shares: (owner: Owner) => boolean;
}

/** A limit that a job exceeds regardless of other jobs. */
export interface Violation {
  /** Path of the limit, e.g. `quotas.roles.worker.task.gpus`. */
  readonly path: string;
  readonly message: string;
  /** The suggested change in job.yaml. */
  readonly fits: string;
}

/** A total without enough room for the job. */
export interface Shortage {
  readonly path: string;
  readonly resource: string;
  readonly limit: number;
  readonly asked: number;
  /** Amount that jobs with precedence hold. */
  readonly used: number;
  readonly holders: readonly string[];
}

const EVERYBODY = '*';

/** Returns every limit in the site file that applies to a job of this owner. */
export function rulesFor(quotas: Quotas, job: Pick<Job, 'roles'>, owner: Owner): Rule[] {
  return rulesOf(
    quotas,
    job.roles.map(({ name }) => name),
    owner,
  );
}

function rulesOf(quotas: Quotas, roles: readonly string[], owner: Owner): Rule[] {
  return [
    ...roleRules(quotas.roles, 'quotas.roles', roles, () => true),
    ...scopesOf(quotas, owner).flatMap(({ path, limits, shares }) => [
      { path, limits, role: null, shares },
      ...roleRules(limits.roles ?? {}, `${path}.roles`, roles, shares),
    ]),
  ];
}

interface Scope {
  readonly path: string;
  readonly limits: JobLimits;
  readonly shares: (owner: Owner) => boolean;
}

function scopesOf(quotas: Quotas, owner: Owner): Scope[] {
  const user = entryOf(quotas.users, owner.user);
  const queue = entryOf(quotas.queues, owner.queue);
  const groups = owner.groups.flatMap((group) => {
    const limits = quotas.groups[group];
    return limits === undefined ? [] : [{ path: `quotas.groups.${group}`, limits, shares: (other: Owner) => other.groups.includes(group) }];
  });
  return [
    ...(user === null
      ? []
      : [{ path: `quotas.users.${user.name}`, limits: user.entry, shares: (other: Owner) => other.user === owner.user }]),
    ...groups,
    ...(queue === null
      ? []
      : [{ path: `quotas.queues.${queue.name}`, limits: queue.entry, shares: (other: Owner) => other.queue === owner.queue }]),
  ];
}

function roleRules(
  entries: Readonly<Record<string, RoleLimits>>,
  path: string,
  roles: readonly string[],
  shares: (owner: Owner) => boolean,
): Rule[] {
  return roles.flatMap((role) => {
    const found = entryOf(entries, role);
    return found === null ? [] : [{ path: `${path}.${found.name}`, limits: found.entry, role, shares }];
  });
}

/** Returns the entry of a name, or the entry `*`, which applies to all names without one. */
export function entryOf<T>(entries: Readonly<Record<string, T>>, name: string): { readonly name: string; readonly entry: T } | null {
  for (const each of [name, EVERYBODY]) {
    const entry = Object.hasOwn(entries, each) ? entries[each] : undefined;
    if (entry !== undefined) return { name: each, entry };
  }
  return null;
}

/** The maximum resources of a job. */
export function demandOf({ roles, master }: Pick<Job, 'roles' | 'master'>): Demand {
  return {
    roles: Object.fromEntries(
      roles.map((role) => [role.name, { ...scaled(taskOf(role), role.maxInstances), instances: role.maxInstances }]),
    ),
    master: { memory: master.memoryMb, vcores: master.vcores },
  };
}

/** Compares two demands with the precision of application tags: a missing amount equals 0, and YARN converts tags to lower case. */
export function isSameDemand(one: Demand, other: Demand): boolean {
  const names = Object.keys(one.roles);
  const same = (a: Amounts, b: Amounts): boolean => {
    const [left, right] = [inLowerCase(a), inLowerCase(b)];
    return Object.keys({ ...left, ...right }).every((name) => (left[name] ?? 0) === (right[name] ?? 0));
  };
  return (
    names.length === Object.keys(other.roles).length &&
    same(one.master, other.master) &&
    names.every((name) => Object.hasOwn(other.roles, name) && same(one.roles[name] ?? {}, other.roles[name] ?? {}))
  );
}

function taskOf(role: Role): Amounts {
  const { memoryMb, vcores, gpus, other } = role.resources;
  const counted = { memory: memoryMb, vcores, gpus };
  // The first spread sets the order; the last one prevents other resource types from replacing these values.
  return { ...counted, ...other, ...counted };
}

function scaled(amounts: Amounts, factor: number): Amounts {
  return Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, (amount ?? 0) * factor]));
}

/** Converts resource names to lower case, as in application tags. */
function inLowerCase(amounts: Amounts): Record<string, number> {
  return sumOf(Object.entries(amounts).map(([name, amount]) => ({ [name.toLowerCase()]: amount })));
}

export function sumOf(all: readonly Amounts[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const amounts of all) for (const [name, amount] of Object.entries(amounts)) sum[name] = (sum[name] ?? 0) + (amount ?? 0);
  return sum;
}

/** Returns every limit that the job exceeds regardless of other jobs. */
export function violationsOf(job: Job, owner: Owner, quotas: Quotas): Violation[] {
  const demand = demandOf(job);
  const found = rulesFor(quotas, job, owner).flatMap((rule): Violation[] => {
    const roles = job.roles.filter((role) => rule.role === null || role.name === rule.role);
    const whole = amountsOf({ ...demand, beyond: {} }, rule.role);
    const whose = rule.role === null ? 'the job' : `role ${rule.role}`;
    return [
      ...overInstances(rule, whole.instances ?? 0, whose),
      ...roles.flatMap((role) => overTask(rule, role)),
      ...(rule.role === null ? overMaster(rule, demand.master) : []),
      ...overWhole(rule, 'job', rule.limits.job ?? {}, whole, whose),
      // A job that exceeds the total alone would wait forever.
      ...overWhole(rule, 'total', rule.limits.total ?? {}, whole, whose),
    ];
  });
  return [...found, ...outsideQueues(quotas, owner), ...scopesOf(quotas, owner).flatMap((scope) => overJobLimits(scope, job))];
}

/** The queues to which an owner may submit. */
export interface AllowedQueues {
  readonly queues: readonly string[];
  /** Path of the entry that sets them, or of the first of several. */
  readonly path: string;
}

/**
 * The most specific entry applies: the user's own, otherwise the union of the entries of the user's groups, otherwise the entry for all
 * users. A group can therefore get access to a queue that others cannot use, as with YARN's ACLs. Returns null when any queue is allowed.
 */
export function allowedQueues(quotas: Quotas, { user, groups }: Pick<Owner, 'user' | 'groups'>): AllowedQueues | null {
  const own = entryOf(quotas.users, user);
  if (own !== null && own.name !== EVERYBODY && own.entry.queues !== undefined)
    return { queues: own.entry.queues, path: `quotas.users.${user}.queues` };
  const named = groups.filter((group) => Object.hasOwn(quotas.groups, group) && quotas.groups[group]?.queues !== undefined);
  if (named.length > 0) {
    const queues = new Set(named.flatMap((group) => quotas.groups[group]?.queues ?? []));
    return { queues: [...queues], path: `quotas.groups.${named[0]}.queues` };
  }
  return own?.entry.queues === undefined ? null : { queues: own.entry.queues, path: `quotas.users.${own.name}.queues` };
}

function outsideQueues(quotas: Quotas, owner: Owner): Violation[] {
  const allowed = allowedQueues(quotas, owner);
  if (allowed === null || allowed.queues.includes(owner.queue)) return [];
  const { queues, path } = allowed;
  return [
    {
      path,
      message: `queue ${owner.queue} is not allowed; ${oneOf(queues)}`,
      fits: queues[0] === undefined ? 'another user' : `queue: ${queues[0]}`,
    },
  ];
}

function overInstances({ path, limits }: Rule, asked: number, whose: string): Violation[] {
  const { instances } = limits;
  if (instances === undefined || asked <= instances) return [];
  return [
    {
      path: `${path}.instances`,
      message: `${whose} asks for ${asked} tasks; ${instances} are allowed`,
      fits: `instances: ${instances} in all`,
    },
  ];
}

function overTask({ path, limits }: Rule, role: Role): Violation[] {
  const asked = taskOf(role);
  return Object.entries(limits.task ?? {}).flatMap(([resource, limit]) => {
    const amount = asked[resource] ?? 0;
    if (limit === undefined || amount <= limit) return [];
    return [
      {
        path: `${path}.task.${resource}`,
        message: `each task of role ${role.name} asks for ${describeAmount(resource, amount)}; ${describeAmount(resource, limit)} is allowed`,
        fits: `roles.${role.name}.resources.${resource}: ${written(resource, limit)}`,
      },
    ];
  });
}

/** `task` limits of users, groups and queues apply to every container of a job, including the ApplicationMaster's. */
function overMaster({ path, limits }: Rule, master: Amounts): Violation[] {
  return Object.entries(DEFAULT_MASTER).flatMap(([resource, usual]) => {
    const limit = limits.task?.[resource];
    const amount = master[resource] ?? 0;
    if (limit === undefined || amount <= Math.max(limit, usual)) return [];
    return [
      {
        path: `${path}.task.${resource}`,
        message: `the ApplicationMaster has ${describeAmount(resource, amount)}; ${describeAmount(resource, limit)} is allowed`,
        fits: `master.${resource}: ${written(resource, Math.max(limit, usual))}`,
      },
    ];
  });
}

function overWhole({ path, role }: Rule, key: 'job' | 'total', limits: Amounts, asked: Amounts, whose: string): Violation[] {
  return Object.entries(limits).flatMap(([resource, limit]) => {
    const amount = asked[resource.toLowerCase()] ?? 0;
    if (limit === undefined || amount <= limit) return [];
    const withMaster = role === null && Object.hasOwn(DEFAULT_MASTER, resource) ? ', its ApplicationMaster included' : '';
    const together = key === 'total' ? ' for all running jobs together' : '';
    return [
      {
        path: `${path}.${key}.${resource}`,
        message: `${whose} asks for ${describeAmount(resource, amount)} in all${withMaster}; ${describeAmount(resource, limit)} is allowed${together}`,
        fits: `instances times ${resource}${withMaster === '' ? '' : `, and master.${resource},`} of at most ${describeAmount(resource, limit)}`,
      },
    ];
  });
}

function overJobLimits({ path, limits }: Scope, job: Job): Violation[] {
  const found: Violation[] = [];
  const { timeout, nodeLabels } = limits;
  if (timeout !== undefined && job.timeoutMs !== null && job.timeoutMs > timeout) {
    found.push({
      path: `${path}.timeout`,
      message: `the job may take ${formatDuration(job.timeoutMs)}; ${formatDuration(timeout)} is allowed`,
      fits: `timeout: ${Math.floor(timeout / 1000)}s`,
    });
  }
  if (nodeLabels !== undefined) {
    const asked = new Map<string, string>();
    for (const role of job.roles) if (role.nodeLabel !== null) asked.set(role.nodeLabel, `roles.${role.name}.nodeLabel`);
    if (job.master.nodeLabel !== null) asked.set(job.master.nodeLabel, 'master.nodeLabel');
    for (const [label, key] of asked) {
      if (nodeLabels.includes(label)) continue;
      found.push({
        path: `${path}.nodeLabels`,
        message: `node label ${label} is not allowed; ${oneOf(nodeLabels)}`,
        fits: nodeLabels[0] === undefined ? `no ${key}` : `${key}: ${nodeLabels[0]}`,
      });
    }
  }
  return found;
}

function oneOf(names: readonly string[]): string {
  return names.length === 0 ? 'none is' : `allowed: ${names.join(', ')}`;
}

/**
 * Returns the totals that a job would exceed together with the jobs that have precedence: those submitted earlier, and those that have
 * started. Other jobs do not count. Ties are broken deterministically, so every ApplicationMaster reaches the same order.
 */
export function shortagesOf(job: Pick<Job, 'roles' | 'master'>, owner: Owner, quotas: Quotas, first: readonly RunningJob[]): Shortage[] {
  return shortagesWithin(demandOf(job), owner, quotas, first);
}

/** Like shortagesOf, for a demand. */
export function shortagesWithin(demand: Demand, owner: Owner, quotas: Quotas, first: readonly RunningJob[]): Shortage[] {
  return rulesOf(quotas, Object.keys(demand.roles), owner).flatMap((rule) => {
    const own = amountsOf({ ...demand, beyond: {} }, rule.role);
    const sharing = first.filter((other) => rule.shares(other));
    return Object.entries(rule.limits.total ?? {}).flatMap(([resource, limit]): Shortage[] => {
      const asked = own[resource.toLowerCase()] ?? 0;
      const held = sharing.map((other) => ({
        id: other.applicationId,
        amount: amountsOf(other, rule.role)[resource.toLowerCase()] ?? 0,
      }));
      const used = held.reduce((sum, { amount }) => sum + amount, 0);
      if (limit === undefined || asked === 0 || used + asked <= limit) return [];
      const holders = held.filter(({ amount }) => amount > 0).map(({ id }) => id);
      return [{ path: `${rule.path}.total.${resource}`, resource, limit, asked, used, holders }];
    });
  });
}

export function describeShortage({ path, resource, limit, asked, used, holders }: Shortage): string {
  const others = holders.length > 3 ? `${holders.slice(0, 3).join(', ')} and ${holders.length - 3} more` : holders.join(', ');
  return `${path} is ${describeAmount(resource, limit)}, of which ${others} ${holders.length === 1 ? 'has' : 'have'} ${describeAmount(resource, used)}, and this job asks for ${describeAmount(resource, asked)}`;
}

/** Returns the amounts of one role, or of the whole job with its ApplicationMaster; resource names are in lower case. */
export function amountsOf(
  { roles, master, beyond }: Pick<RunningJob, 'roles' | 'master' | 'beyond'>,
  role: string | null,
): Record<string, number> {
  const all = role === null ? [...Object.values(roles), master] : [roles[role] ?? {}];
  return sumOf([beyond, ...all].map(inLowerCase));
}

/** True if any limit depends on other jobs. */
export function setsTotals({ roles, users, groups, queues }: Quotas): boolean {
  const scopes: JobLimits[] = [users, groups, queues].flatMap((entries) => Object.values(entries));
  return [...Object.values(roles), ...scopes, ...scopes.flatMap((scope) => Object.values(scope.roles ?? {}))].some(
    ({ total }) => total !== undefined,
  );
}

/** The lowest run time limit that the site sets for the job; null for none. */
export function timeoutOf(quotas: Quotas, owner: Owner): { readonly ms: number; readonly path: string } | null {
  return shortest(quotas, owner, 'timeout');
}

/** The lowest idle time limit that the site sets for the job; null for none. */
export function idleLimitOf(quotas: Quotas, owner: Owner): { readonly ms: number; readonly path: string } | null {
  return shortest(quotas, owner, 'idle');
}

function shortest(quotas: Quotas, owner: Owner, key: 'timeout' | 'idle'): { readonly ms: number; readonly path: string } | null {
  const all = scopesOf(quotas, owner).flatMap(({ path, limits }) => {
    const ms = limits[key];
    return ms === undefined ? [] : [{ ms, path: `${path}.${key}` }];
  });
  return all.sort((a, b) => a.ms - b.ms)[0] ?? null;
}

/** Formats an amount for users: `4 GiB of memory`, `2 gpus`. */
export function describeAmount(resource: string, amount: number): string {
  return resource === 'memory' ? `${formatMemory(amount)} of memory` : `${amount} ${resource}`;
}

function written(resource: string, amount: number): string {
  return resource === 'memory' ? `${amount}m` : String(amount);
}
