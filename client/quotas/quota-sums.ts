import type { Amounts, Quotas, RoleLimits } from '../../conf/quota-schema.ts';
import { amountsOf, type Owner, type RunningJob, type Shortage, shortagesWithin } from '../../conf/quotas.ts';

export interface CountedJob extends RunningJob {
  /** Whether the job has containers for its tasks. */
  readonly holds: boolean;
}

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
  readonly applicationId: string;
  readonly user: string;
  readonly queue: string;
  readonly shortages: readonly Shortage[];
}

/** Job that uses more than the demand declared in its tags. The excess counts towards every role's total. */
export interface UndeclaredUse {
  readonly applicationId: string;
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
  readonly shares: (owner: Owner) => boolean;
}

const EVERYBODY = '*';
const NOBODY = { user: null, group: null, queue: null };

/**
 * Calculates how much of every total is used, by the same rules as the ApplicationMasters.
 * @param jobs in the order in which they were submitted. If two jobs together exceed a total, the later job waits unless it has already
 *   started.
 */
export function quotaSums(quotas: Quotas, jobs: readonly CountedJob[]): QuotaSums {
  const checked = jobs.map((job, index) => {
    if (job.holds || quotas.over === 'fail') {
      return { job, shortages: [] };
    }
    const counted = jobs.filter((other, place) => place < index || other.holds);
    return { job, shortages: shortagesWithin(job, job, quotas, counted) };
  });
  const begun = checked.filter(({ shortages }) => shortages.length === 0).map(({ job }) => job);
  const waiting = checked.filter(({ shortages }) => shortages.length > 0);
  const sums = scopesOf(quotas, jobs).flatMap((scope) => {
    const ofRoles = namesWithin(
      scope.roles,
      jobs.filter(scope.shares).flatMap(({ roles }) => Object.keys(roles)),
    ).map(({ entry, name, limits }) => ({ path: `${scope.path}.roles.${entry}`, role: name, total: limits.total ?? {} }));
    return [{ path: scope.path, role: null, total: scope.total }, ...ofRoles].flatMap(({ path, role, total }) =>
      Object.entries(total).flatMap(([resource, limit]): QuotaSum[] => {
        if (limit === undefined) {
          return [];
        }
        const amount = (job: RunningJob): number => amountsOf(job, role)[resource.toLowerCase()] ?? 0;
        const sharing = begun.filter((job) => scope.shares(job) && amount(job) > 0);
        const place = `${path}.total.${resource}`;
        const short = waiting.filter(({ job, shortages }) => scope.shares(job) && shortages.some((each) => each.path === place));
        return [
          {
            path: place,
            ...scope.who,
            role,
            resource,
            limit,
            used: sharing.reduce((sum, job) => sum + amount(job), 0),
            jobs: sharing.map(({ applicationId }) => applicationId),
            waiting: short.filter(({ job }) => role === null || Object.hasOwn(job.roles, role)).map(({ job }) => job.applicationId),
          },
        ];
      }),
    );
  });
  return {
    totals: sums,
    waiting: waiting.map(({ job: { applicationId, user, queue }, shortages }) => ({ applicationId, user, queue, shortages })),
    undeclared: jobs
      .filter(({ beyond }) => Object.keys(beyond).length > 0)
      .map(({ applicationId, user, beyond }) => ({ applicationId, user, beyond })),
  };
}

function scopesOf(quotas: Quotas, jobs: readonly CountedJob[]): Scope[] {
  const users = namesWithin(
    quotas.users,
    jobs.map(({ user }) => user),
  ).map(({ entry, name, limits }) => ({
    path: `quotas.users.${entry}`,
    who: { ...NOBODY, user: name },
    limits,
    shares: ({ user }: Owner) => user === name,
  }));
  const groups = Object.entries(quotas.groups).map(([name, limits]) => ({
    path: `quotas.groups.${name}`,
    who: { ...NOBODY, group: name },
    limits,
    shares: ({ groups: all }: Owner) => all.includes(name),
  }));
  const queues = namesWithin(
    quotas.queues,
    jobs.map(({ queue }) => queue),
  ).map(({ entry, name, limits }) => ({
    path: `quotas.queues.${entry}`,
    who: { ...NOBODY, queue: name },
    limits,
    shares: ({ queue }: Owner) => queue === name,
  }));
  return [
    { path: 'quotas', who: NOBODY, total: {}, roles: quotas.roles, shares: () => true },
    ...[...users, ...groups, ...queues].map(({ path, who, limits, shares }) => {
      return { path, who, total: limits.total ?? {}, roles: limits.roles ?? {}, shares };
    }),
  ];
}

/**
 * Returns an entry for each name. Replaces `*` with all names in `found` that do not have their own entry, or keeps `*` if there are no
 * such names.
 */
function namesWithin<T>(
  entries: Readonly<Record<string, T>>,
  found: readonly string[],
): { readonly entry: string; readonly name: string; readonly limits: T }[] {
  return Object.entries(entries).flatMap(([entry, limits]) => {
    if (entry !== EVERYBODY) {
      return [{ entry, name: entry, limits }];
    }
    const others = [...new Set(found)].filter((name) => !Object.hasOwn(entries, name)).sort();
    return (others.length === 0 ? [EVERYBODY] : others).map((name) => ({ entry, name, limits }));
  });
}
