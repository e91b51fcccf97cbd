import { type CountedJob, type Limits, type PlacedJob, placeJobs } from '../../conf/quota-order.ts';
import type { Amounts, Quotas, RoleLimits } from '../../conf/quota-schema.ts';
import { ALL_JOBS, amountsOf, EVERYBODY, type RunningJob, type Shortage, scopeName, scopesWith } from '../../conf/quotas.ts';

export interface QuotaSum {
  /** Key in the site file, such as `quotas.users.*.total.gpus`. */
  readonly path: string;
  /**
   * User, group or queue whose jobs the sum includes. At most one of these three fields is set. If all are null, the sum includes all jobs.
   * If a `*` entry does not apply to any jobs, the field contains `*`.
   */
  readonly user: string | null;
  readonly group: string | null;
  readonly queue: string | null;
  /** Role whose tasks the sum includes, or null for all roles. */
  readonly role: string | null;
  readonly resource: string;
  readonly limit: number;
  /** Resources used by all jobs that have started or are allowed to start. Includes containers that the jobs have not received yet. */
  readonly used: number;
  readonly jobs: readonly string[];
  /** IDs of the jobs that are waiting because they would exceed the total. */
  readonly waiting: readonly string[];
}

export interface WaitingJob {
  readonly id: string;
  readonly user: string;
  readonly queue: string;
  readonly shortages: readonly Shortage[];
}

/** Job that uses more than the demand declared in its tags. The excess counts towards every role's total. */
export interface UndeclaredUse {
  readonly id: string;
  readonly user: string;
  readonly beyond: Amounts;
}

export interface QuotaSums {
  readonly totals: readonly QuotaSum[];
  readonly waiting: readonly WaitingJob[];
  readonly undeclared: readonly UndeclaredUse[];
}

interface Scope {
  readonly path: string;
  readonly who: Pick<QuotaSum, 'user' | 'group' | 'queue'>;
  readonly total: Amounts;
  readonly roles: Readonly<Record<string, RoleLimits>>;
  /** The jobs that share the totals, as in `scopesWith`. */
  readonly scope: string;
}

const NOBODY = { user: null, group: null, queue: null };

/**
 * Calculates how much of every total is used, by the same rules as the ApplicationMasters.
 * @param jobs in the order in which they were submitted. If two jobs together exceed a total, the later job waits unless it has already
 *   started.
 */
export function quotaSums(limits: Limits, jobs: readonly CountedJob[]): QuotaSums {
  const { quotas } = limits;
  const { placed } = placeJobs(limits, jobs);
  // With `over: fail`, no job waits: it has started, or ends immediately.
  const checked = placed.map((each) => (quotas.over === 'fail' ? { ...each, shortages: [] } : each));
  const waiting = checked.filter(({ shortages }) => shortages.length > 0);
  const begun = jobsByRole(checked.filter(({ shortages }) => shortages.length === 0).map(({ job }) => job));
  const short = waitingByTotal(waiting);
  const rolesByScope = roleNames(jobs);
  const sums = scopesOf(quotas, jobs).flatMap((scope) => {
    const ofRoles = namesWithin(scope.roles, rolesByScope.get(scope.scope) ?? new Set()).map(({ entry, name, limits }) => ({
      path: `${scope.path}.roles.${entry}`,
      role: name,
      total: limits.total ?? {},
    }));
    return [{ path: scope.path, role: null, total: scope.total }, ...ofRoles].flatMap(({ path, role, total }) => {
      const holders = begun(scope.scope, role);
      return Object.entries(total).flatMap(([resource, limit]): QuotaSum[] => {
        if (limit === undefined) {
          return [];
        }
        const amount = (job: RunningJob): number => amountsOf(job, role)[resource.toLowerCase()] ?? 0;
        const sharing = holders.filter((job) => amount(job) > 0);
        const place = `${path}.total.${resource}`;
        return [
          {
            path: place,
            ...scope.who,
            role,
            resource,
            limit,
            used: sharing.reduce((sum, job) => sum + amount(job), 0),
            jobs: sharing.map(({ jobId }) => jobId),
            waiting: (short.get(`${scope.scope}\0${place}`) ?? [])
              .filter((job) => role === null || Object.hasOwn(job.roles, role))
              .map(({ jobId }) => jobId),
          },
        ];
      });
    });
  });
  return {
    totals: sums,
    waiting: waiting.map(({ job: { jobId, user, queue }, shortages }) => ({ id: jobId, user, queue, shortages })),
    undeclared: jobs.filter(({ beyond }) => Object.keys(beyond).length > 0).map(({ jobId, user, beyond }) => ({ id: jobId, user, beyond })),
  };
}

/** Returns a function that selects the jobs of a scope that may hold resources of a role, or of any role if it is null. */
function jobsByRole(jobs: readonly CountedJob[]): (scope: string, role: string | null) => readonly CountedJob[] {
  const index = new Map<string, CountedJob[]>();
  const order = new Map(jobs.map((job, number) => [job, number]));
  for (const job of jobs) {
    const isUndeclared = Object.keys(job.beyond).length > 0;
    for (const scope of scopesWith(job)) {
      const keys = isUndeclared ? ['', 'beyond'] : ['', ...Object.keys(job.roles).map((role) => `role ${role}`)];
      for (const key of keys) {
        push(index, `${scope}\0${key}`, job);
      }
    }
  }
  return (scope, role) => {
    const of = (key: string) => index.get(`${scope}\0${key}`) ?? [];
    return role === null ? of('') : [...of(`role ${role}`), ...of('beyond')].sort((a, b) => (order.get(a) ?? 0) - (order.get(b) ?? 0));
  };
}

/** Returns the waiting jobs of each scope and path of a total. */
function waitingByTotal(waiting: readonly PlacedJob[]): Map<string, CountedJob[]> {
  const index = new Map<string, CountedJob[]>();
  for (const { job, shortages } of waiting) {
    for (const scope of scopesWith(job)) {
      for (const path of new Set(shortages.map((each) => each.path))) {
        push(index, `${scope}\0${path}`, job);
      }
    }
  }
  return index;
}

function roleNames(jobs: readonly CountedJob[]): Map<string, Set<string>> {
  const names = new Map<string, Set<string>>();
  for (const job of jobs) {
    for (const scope of scopesWith(job)) {
      const known = names.get(scope) ?? new Set();
      for (const role of Object.keys(job.roles)) {
        known.add(role);
      }
      names.set(scope, known);
    }
  }
  return names;
}

function push<T>(index: Map<string, T[]>, key: string, value: T): void {
  const list = index.get(key);
  if (list === undefined) {
    index.set(key, [value]);
  } else {
    list.push(value);
  }
}

function scopesOf(quotas: Quotas, jobs: readonly CountedJob[]): Scope[] {
  const users = namesWithin(quotas.users, new Set(jobs.map(({ user }) => user))).map(({ entry, name, limits }) => ({
    path: `quotas.users.${entry}`,
    who: { ...NOBODY, user: name },
    limits,
    scope: scopeName('user', name),
  }));
  const groups = Object.entries(quotas.groups).map(([name, limits]) => ({
    path: `quotas.groups.${name}`,
    who: { ...NOBODY, group: name },
    limits,
    scope: scopeName('group', name),
  }));
  const queues = namesWithin(quotas.queues, new Set(jobs.map(({ queue }) => queue))).map(({ entry, name, limits }) => ({
    path: `quotas.queues.${entry}`,
    who: { ...NOBODY, queue: name },
    limits,
    scope: scopeName('queue', name),
  }));
  return [
    { path: 'quotas', who: NOBODY, total: {}, roles: quotas.roles, scope: ALL_JOBS },
    ...[...users, ...groups, ...queues].map(({ path, who, limits, scope }) => {
      return { path, who, total: limits.total ?? {}, roles: limits.roles ?? {}, scope };
    }),
  ];
}

/**
 * Returns an entry for each name. Replaces `*` with all names in `found` that do not have their own entry, or keeps `*` if there are no
 * such names.
 */
function namesWithin<T>(
  entries: Readonly<Record<string, T>>,
  found: ReadonlySet<string>,
): { readonly entry: string; readonly name: string; readonly limits: T }[] {
  return Object.entries(entries).flatMap(([entry, limits]) => {
    if (entry !== EVERYBODY) {
      return [{ entry, name: entry, limits }];
    }
    const others = [...found].filter((name) => !Object.hasOwn(entries, name)).sort();
    return (others.length === 0 ? [EVERYBODY] : others).map((name) => ({ entry, name, limits }));
  });
}
