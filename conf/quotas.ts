import type { Job, Role } from './job.ts';
import type { Amounts, JobLimits, Quotas, RoleLimits } from './quota-schema.ts';
import { formatDuration, formatMemory } from './units.ts';

/** Whose job it is. */
export interface Owner {
  readonly user: string;
  readonly groups: readonly string[];
  readonly queue: string;
}

/** A job as sums count it. */
export interface RunningJob extends Owner {
  readonly applicationId: string;
  /** What the tasks of each role have, or will have once all are there; `instances` is their number. */
  readonly roles: Readonly<Record<string, Amounts>>;
  /** What it has beyond that: of no role that it tells, so it counts for each. */
  readonly beyond: Amounts;
}

/**
 * What a running job takes: what it says by its tags, and whatever the cluster says that it has beyond that.
 *
 * @param told null when it says nothing.
 * @param has of its tasks, as the cluster counts it; amounts by the names of the site file.
 */
export function takenBy(told: Readonly<Record<string, Amounts>> | null, has: Amounts): Pick<RunningJob, 'roles' | 'beyond'> {
  const roles = told ?? {};
  const said = sumOf(Object.values(roles));
  const beyond = Object.entries(has).flatMap(([name, amount]) => {
    const more = (amount ?? 0) - (said[name] ?? 0);
    return more > 0 ? [[name, more] as const] : [];
  });
  return { roles, beyond: Object.fromEntries(beyond) };
}

/** A queue by the last part of its path, which is how people name it: `root.a.b` is `b`. */
export function queueName(queue: string): string {
  return queue.slice(queue.lastIndexOf('.') + 1);
}

/** One limit that a job meets, by its place in the site file. */
export interface Rule {
  /** e.g. `quotas.queues.research.roles.worker`. */
  readonly path: string;
  readonly limits: RoleLimits;
  /** Only this role counts; null: all of the job. */
  readonly role: string | null;
  /** Whose running jobs are summed. */
  readonly shares: (owner: Owner) => boolean;
}

/** What a job asks for beyond a limit. */
export interface Violation {
  /** Of the limit, e.g. `quotas.roles.worker.task.gpus`. */
  readonly path: string;
  readonly message: string;
  /** What to write in job.yaml instead. */
  readonly fits: string;
}

/** A total of which too little is left. */
export interface Shortage {
  readonly path: string;
  readonly resource: string;
  readonly limit: number;
  readonly asked: number;
  /** What jobs that go first have. */
  readonly used: number;
  readonly holders: readonly string[];
}

const EVERYBODY = '*';

/** Every limit that the site file sets for a job of this owner. */
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

/** The entry of a name: its own, or that of all who have none. */
export function entryOf<T>(entries: Readonly<Record<string, T>>, name: string): { readonly name: string; readonly entry: T } | null {
  for (const each of [name, EVERYBODY]) {
    const entry = Object.hasOwn(entries, each) ? entries[each] : undefined;
    if (entry !== undefined) return { name: each, entry };
  }
  return null;
}

/** What the tasks of each role take together, at their most. */
export function demandOf(job: Pick<Job, 'roles'>): Record<string, Amounts> {
  return Object.fromEntries(
    job.roles.map((role) => [role.name, { instances: role.maxInstances, ...scaled(taskOf(role), role.maxInstances) }]),
  );
}

function taskOf(role: Role): Amounts {
  const { memoryMb, vcores, gpus, other } = role.resources;
  return { memory: memoryMb, vcores, gpus, ...other };
}

function scaled(amounts: Amounts, factor: number): Amounts {
  return Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, (amount ?? 0) * factor]));
}

export function sumOf(all: readonly Amounts[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const amounts of all) for (const [name, amount] of Object.entries(amounts)) sum[name] = (sum[name] ?? 0) + (amount ?? 0);
  return sum;
}

/** Everything by which a job is beyond what is allowed whatever else runs, all at once. */
export function violationsOf(job: Job, owner: Owner, quotas: Quotas): Violation[] {
  const demand = demandOf(job);
  const found = rulesFor(quotas, job, owner).flatMap((rule): Violation[] => {
    const roles = job.roles.filter((role) => rule.role === null || role.name === rule.role);
    const whole = sumOf(roles.map((role) => demand[role.name] ?? {}));
    const whose = rule.role === null ? 'the job' : `role ${rule.role}`;
    return [
      ...overInstances(rule, whole.instances ?? 0, whose),
      ...roles.flatMap((role) => overTask(rule, role)),
      ...overWhole(rule, 'job', rule.limits.job ?? {}, whole, whose),
      // A job that asks for more than the total would wait for ever.
      ...overWhole(rule, 'total', rule.limits.total ?? {}, whole, whose),
    ];
  });
  return [...found, ...outsideQueues(quotas, owner), ...scopesOf(quotas, owner).flatMap((scope) => overJobLimits(scope, job))];
}

/** Which queues an owner may name. */
export interface AllowedQueues {
  readonly queues: readonly string[];
  /** Of the entry that says so, or of the first of several. */
  readonly path: string;
}

/**
 * By the entry that is closest to the owner: their own, else those of all their groups together, else that of everybody else. So a group may be
 * let into a queue from which others are kept out, as YARN's access lists can say it. null: any queue.
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

function overWhole({ path }: Rule, key: 'job' | 'total', limits: Amounts, asked: Amounts, whose: string): Violation[] {
  return Object.entries(limits).flatMap(([resource, limit]) => {
    const amount = asked[resource] ?? 0;
    if (limit === undefined || amount <= limit) return [];
    const together = key === 'total' ? ' for all running jobs together' : '';
    return [
      {
        path: `${path}.${key}.${resource}`,
        message: `${whose} asks for ${describeAmount(resource, amount)} in all; ${describeAmount(resource, limit)} is allowed${together}`,
        fits: `instances times ${resource} of at most ${describeAmount(resource, limit)}`,
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
 * The totals that a job would go beyond beside the jobs that go first: those that were submitted before it, and those that have begun. Others do
 * not count, so of two jobs at the same moment one goes first, whoever looks.
 */
export function shortagesOf(job: Pick<Job, 'roles'>, owner: Owner, quotas: Quotas, first: readonly RunningJob[]): Shortage[] {
  return shortagesWithin(demandOf(job), owner, quotas, first);
}

/** The same of what a job takes by role. */
export function shortagesWithin(
  demand: Readonly<Record<string, Amounts>>,
  owner: Owner,
  quotas: Quotas,
  first: readonly RunningJob[],
): Shortage[] {
  return rulesOf(quotas, Object.keys(demand), owner).flatMap((rule) => {
    const own = amountsOf(demand, {}, rule.role);
    const sharing = first.filter((other) => rule.shares(other));
    return Object.entries(rule.limits.total ?? {}).flatMap(([resource, limit]): Shortage[] => {
      const asked = own[resource] ?? 0;
      const held = sharing.map((other) => ({
        id: other.applicationId,
        amount: amountsOf(other.roles, other.beyond, rule.role)[resource] ?? 0,
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

/** Of a role, or of all. */
export function amountsOf(roles: Readonly<Record<string, Amounts>>, beyond: Amounts, role: string | null): Record<string, number> {
  return sumOf([beyond, ...(role === null ? Object.values(roles) : [roles[role] ?? {}])]);
}

/** Whether what other jobs have matters at all. */
export function setsTotals({ roles, users, groups, queues }: Quotas): boolean {
  const scopes: JobLimits[] = [users, groups, queues].flatMap((entries) => Object.values(entries));
  return [...Object.values(roles), ...scopes, ...scopes.flatMap((scope) => Object.values(scope.roles ?? {}))].some(
    ({ total }) => total !== undefined,
  );
}

/** The shortest run time that the site sets for the job; null for none. */
export function timeoutOf(quotas: Quotas, owner: Owner): { readonly ms: number; readonly path: string } | null {
  return shortest(quotas, owner, 'timeout');
}

/** The shortest idle time that the site sets for the job; null for none. */
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

/** For people: `4 GiB of memory`, `2 gpus`. */
export function describeAmount(resource: string, amount: number): string {
  return resource === 'memory' ? `${formatMemory(amount)} of memory` : `${amount} ${resource}`;
}

function written(resource: string, amount: number): string {
  return resource === 'memory' ? `${amount}m` : String(amount);
}
