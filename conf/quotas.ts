import { sumOf } from '../platform/sum-of.ts';
import type { Job, Role } from './job.ts';
import type { Amounts, JobLimits, Quotas, RoleLimits } from './quota-schema.ts';
import { stagesOf } from './role-stages.ts';
import { counted } from './values/quantities.ts';
import { formatMemory } from './values/units.ts';

export interface Owner {
  readonly user: string;
  readonly groups: readonly string[];
  readonly queue: string;
}

/** Resources that a job needs at its maximum size. */
export interface Demand {
  /** Total resources of each role. `instances` is the number of tasks. */
  readonly roles: Readonly<Record<string, Amounts>>;
  /** Peak resources of all tasks. If some roles run one after another, the peak is less than the sum of the roles. */
  readonly peak: Amounts;
  readonly master: Amounts;
}

export interface RunningJob extends Owner, Demand {
  readonly jobId: string;
  /**
   * Resources that the tasks use in addition to the demand in the job's tags. The roles of these tasks are unknown, so the total of every
   * role includes these resources.
   */
  readonly beyond: Amounts;
}

/**
 * Default resources for the ApplicationMaster's container. Every job needs such a container, so per-container limits always allow these
 * resources.
 */
export const DEFAULT_MASTER = { memory: 1024, vcores: 1 } as const satisfies Amounts;

/**
 * Returns a running job's resources: the demand in its tags, and any resources that the cluster reports in addition to this demand.
 * @param demand demand in the tags, or null if there are no valid tags
 * @param tasks resources of the tasks, as reported by the cluster
 * @param master resources of the ApplicationMaster, as reported by the cluster
 */
export function takenBy(demand: Demand | null, tasks: Amounts, master: Amounts): Demand & Pick<RunningJob, 'beyond'> {
  const { roles, peak, master: declaredMaster } = demand ?? { roles: {}, peak: {}, master: {} };
  const declared = new Map(Object.entries(inLowerCase(peak)));
  const beyond = Object.entries(inLowerCase(tasks)).flatMap(([name, amount]) => {
    const more = amount - (declared.get(name) ?? 0);
    return more > 0 ? [[name, more] as const] : [];
  });
  return { roles, peak, master: largest([declaredMaster, master]), beyond: Object.fromEntries(beyond) };
}

/** Returns the largest amount of each resource. */
export function largest(all: readonly Amounts[]): Record<string, number> {
  const most = new Map<string, number>();
  for (const amounts of all) {
    for (const [name, amount] of Object.entries(amounts)) {
      most.set(name, Math.max(most.get(name) ?? 0, amount ?? 0));
    }
  }
  return Object.fromEntries(most);
}

/** Returns the name that users write for a queue, for example `b` for the path `root.a.b`. */
export function queueName(queue: string): string {
  return queue.slice(queue.lastIndexOf('.') + 1);
}

export interface Rule {
  /** Key in the site file, for example `quotas.queues.research.roles.worker`. */
  readonly path: string;
  readonly limits: RoleLimits;
  /** Role to which the limit applies, or null for the whole job. */
  readonly role: string | null;
  /** The jobs that share the total, as in `scopesWith`. */
  readonly scope: string;
}

export interface Shortage {
  readonly path: string;
  readonly resource: string;
  readonly limit: number;
  readonly asked: number;
  readonly used: number;
  /** IDs of the first jobs that hold some of the resource: jobs with containers, and then waiting jobs in the order of their submission. */
  readonly holders: readonly string[];
  /** Number of jobs that hold some of the resource, including those that `holders` leaves out. */
  readonly holderCount: number;
}

export const EVERYBODY = '*';

/** Returns every limit in the site file that applies to this owner's job with these roles. */
export function rulesFor(quotas: Quotas, roles: readonly string[], owner: Owner): Rule[] {
  return [
    ...roleRules(quotas.roles, 'quotas.roles', roles, ALL_JOBS),
    ...scopesOf(quotas, owner).flatMap(({ path, limits, scope }) => [
      { path, limits, role: null, scope },
      ...roleRules(limits.roles ?? {}, `${path}.roles`, roles, scope),
    ]),
  ];
}

export interface Scope {
  readonly path: string;
  readonly limits: JobLimits;
  /** The jobs that share the totals, as in `scopesWith`. */
  readonly scope: string;
}

/** The scope that contains all jobs. */
export const ALL_JOBS = 'all';

/** Returns the name of the scope that contains the jobs of a user, a group or a queue. */
export function scopeName(kind: 'user' | 'group' | 'queue', name: string): string {
  return `${kind} ${name}`;
}

/** Returns the scopes of an owner's jobs: all jobs, and the jobs of the user, of each group and of the queue. */
export function scopesWith({ user, groups, queue }: Owner): string[] {
  return [ALL_JOBS, scopeName('user', user), ...groups.map((group) => scopeName('group', group)), scopeName('queue', queue)];
}

export function scopesOf(quotas: Quotas, owner: Owner): Scope[] {
  const user = entryOf(quotas.users, owner.user);
  const queue = entryOf(quotas.queues, owner.queue);
  const groups = owner.groups.flatMap((group) => {
    const limits = quotas.groups[group];
    return limits === undefined ? [] : [{ path: `quotas.groups.${group}`, limits, scope: scopeName('group', group) }];
  });
  return [
    ...(user === null ? [] : [{ path: `quotas.users.${user.name}`, limits: user.entry, scope: scopeName('user', owner.user) }]),
    ...groups,
    ...(queue === null ? [] : [{ path: `quotas.queues.${queue.name}`, limits: queue.entry, scope: scopeName('queue', owner.queue) }]),
  ];
}

function roleRules(entries: Readonly<Record<string, RoleLimits>>, path: string, roles: readonly string[], scope: string): Rule[] {
  return roles.flatMap((role) => {
    const found = entryOf(entries, role);
    return found === null ? [] : [{ path: `${path}.${found.name}`, limits: found.entry, role, scope }];
  });
}

/** Returns the entry for a name. If there is none, returns the `*` entry, or null if there is no `*` entry either. */
export function entryOf<T>(entries: Readonly<Record<string, T>>, name: string): { readonly name: string; readonly entry: T } | null {
  for (const each of [name, EVERYBODY]) {
    const entry = Object.hasOwn(entries, each) ? entries[each] : undefined;
    if (entry !== undefined) {
      return { name: each, entry };
    }
  }
  return null;
}

/** Returns the resources that a job needs at its maximum size. */
export function demandOf({ roles, master }: Pick<Job, 'roles' | 'master'>): Demand {
  const ofRoles = Object.fromEntries(
    roles.map((role) => [role.name, { ...scaled(taskOf(role), role.maxInstances), instances: role.maxInstances }]),
  );
  const stages = stagesOf({ roles }).map((stage) => sumOf(stage.map((name) => ofRoles[name] ?? {})));
  return { roles: ofRoles, peak: largest(stages), master: { memory: master.resources.memoryMb, vcores: master.resources.vcores } };
}

/** Returns true if both demands have the same encoding in application tags. The encoding ignores case and omits amounts of 0. */
export function isSameDemand(one: Demand, other: Demand): boolean {
  const names = Object.keys(one.roles);
  const same = (a: Amounts, b: Amounts): boolean => {
    const [left, right] = [inLowerCase(a), inLowerCase(b)];
    return Object.keys({ ...left, ...right }).every((name) => (left[name] ?? 0) === (right[name] ?? 0));
  };
  return (
    names.length === Object.keys(other.roles).length &&
    same(one.master, other.master) &&
    same(one.peak, other.peak) &&
    names.every((name) => Object.hasOwn(other.roles, name) && same(one.roles[name] ?? {}, other.roles[name] ?? {}))
  );
}

export function taskOf(role: Role): Amounts {
  const { memoryMb, vcores, gpus, other } = role.resources;
  const counted = { memory: memoryMb, vcores, gpus };
  // The first spread fixes the order of the keys. The last spread prevents other resource types from overriding these keys.
  return { ...counted, ...other, ...counted };
}

function scaled(amounts: Amounts, factor: number): Amounts {
  return Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, (amount ?? 0) * factor]));
}

/** Returns the amounts with resource names in lower case, as in application tags. */
export function inLowerCase(amounts: Amounts): Record<string, number> {
  return sumOf(Object.entries(amounts).map(([name, amount]) => ({ [name.toLowerCase()]: amount })));
}

/**
 * Returns one role's resources. If `role` is null, returns the peak of the whole job including its ApplicationMaster. Resource names are in
 * lower case.
 */
export function amountsOf(
  { roles, peak, master, beyond }: Demand & Pick<RunningJob, 'beyond'>,
  role: string | null,
): Record<string, number> {
  const all = role === null ? [peak, master] : [roles[role] ?? {}];
  return sumOf([beyond, ...all].map(inLowerCase));
}

/** Returns true if the quotas contain a total. How much of a total is in use depends on other jobs. */
export function setsTotals({ roles, users, groups, queues }: Quotas): boolean {
  const scopes: JobLimits[] = [users, groups, queues].flatMap((entries) => Object.values(entries));
  return [...Object.values(roles), ...scopes, ...scopes.flatMap((scope) => Object.values(scope.roles ?? {}))].some(
    ({ total }) => total !== undefined,
  );
}

/**
 * Returns the shortest run time or idle time in ms that the site file allows for this owner's jobs, or null if the site file sets no limit.
 */
export function timeLimitOf(quotas: Quotas, owner: Owner, key: 'timeout' | 'idle'): { readonly ms: number; readonly path: string } | null {
  const all = scopesOf(quotas, owner).flatMap(({ path, limits }) => {
    const ms = limits[key];
    return ms === undefined ? [] : [{ ms, path: `${path}.${key}` }];
  });
  return all.sort((a, b) => a.ms - b.ms)[0] ?? null;
}

export function describeAmount(resource: string, amount: number): string {
  switch (resource) {
    case 'memory':
      return `${formatMemory(amount)} of memory`;
    case 'vcores':
      return counted(amount, 'vcore');
    case 'gpus':
      return counted(amount, 'gpu');
    default:
      return `${amount} ${resource}`;
  }
}
