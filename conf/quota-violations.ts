import type { Job } from './job.ts';
import type { Amounts, Quotas } from './quota-schema.ts';
import {
  amountsOf,
  DEFAULT_MASTER,
  type Demand,
  demandOf,
  describeAmount,
  EVERYBODY,
  entryOf,
  inLowerCase,
  type Owner,
  type Rule,
  rulesFor,
  type Scope,
  scopesOf,
} from './quotas.ts';
import { counted } from './values/quantities.ts';
import { formatDuration } from './values/units.ts';

export interface Violation {
  /** Key in the site file, for example `quotas.roles.worker.task.gpus`. */
  readonly path: string;
  readonly message: string;
  /** Change in job.yaml that satisfies the limit. */
  readonly fits: string;
}

/**
 * Returns every limit that the job exceeds even if no other job is running.
 * @param demand the job's demand; differs from its own if YARN has given its ApplicationMaster more than the job requests
 */
export function violationsOf(job: Job, owner: Owner, quotas: Quotas, demand = demandOf(job)): Violation[] {
  return [...demandViolations(demand, owner, quotas), ...scopesOf(quotas, owner).flatMap((scope) => overJobLimits(scope, job))];
}

/** Returns every limit for resources and queues that a demand exceeds even if no other job is running. */
export function demandViolations(demand: Demand, owner: Owner, quotas: Quotas): Violation[] {
  const found = rulesFor(quotas, Object.keys(demand.roles), owner).flatMap((rule): Violation[] => {
    const roles = Object.entries(demand.roles).filter(([name]) => rule.role === null || name === rule.role);
    const whole = amountsOf({ ...demand, beyond: {} }, rule.role);
    const whose = rule.role === null ? 'the job' : `role ${rule.role}`;
    return [
      ...overInstances(rule, whole.instances ?? 0, whose),
      ...roles.flatMap(([name, amounts]) => overTask(rule, name, amounts)),
      ...(rule.role === null ? overMaster(rule, demand.master) : []),
      ...overWhole(rule, 'job', rule.limits.job ?? {}, whole, whose),
      // Reject a job that exceeds a total on its own, because it would wait forever.
      ...overWhole(rule, 'total', rule.limits.total ?? {}, whole, whose),
    ];
  });
  return [...found, ...outsideQueues(quotas, owner)];
}

export interface AllowedQueues {
  readonly queues: readonly string[];
  /** Key in the site file that lists the queues. If several groups list queues, this is the key of the first group. */
  readonly path: string;
}

/**
 * Returns the queues to which a user may submit, or null if the user may submit to all queues. If the user's own entry lists queues, these
 * queues apply. Otherwise, the queues in the entries of the user's groups apply. If no such entry lists queues, the `*` entry applies. A
 * group's entry can therefore allow a queue that the `*` entry does not list.
 */
export function allowedQueues(quotas: Quotas, { user, groups }: Pick<Owner, 'user' | 'groups'>): AllowedQueues | null {
  const own = entryOf(quotas.users, user);
  if (own !== null && own.name !== EVERYBODY && own.entry.queues !== undefined) {
    return { queues: own.entry.queues, path: `quotas.users.${user}.queues` };
  }
  const named = groups.filter((group) => Object.hasOwn(quotas.groups, group) && quotas.groups[group]?.queues !== undefined);
  if (named.length > 0) {
    const queues = new Set(named.flatMap((group) => quotas.groups[group]?.queues ?? []));
    return { queues: [...queues], path: `quotas.groups.${named[0]}.queues` };
  }
  return own?.entry.queues === undefined ? null : { queues: own.entry.queues, path: `quotas.users.${own.name}.queues` };
}

function outsideQueues(quotas: Quotas, owner: Owner): Violation[] {
  const allowed = allowedQueues(quotas, owner);
  if (allowed === null || allowed.queues.includes(owner.queue)) {
    return [];
  }
  const { queues, path } = allowed;
  return [
    {
      path,
      message: `queue ${owner.queue} is not allowed; ${oneOf(queues)}`,
      fits: queues[0] === undefined ? 'another user' : `queue: ${queues[0]}`,
    },
  ];
}

function overInstances({ path, limits }: Rule, requested: number, whose: string): Violation[] {
  const { instances } = limits;
  if (instances === undefined || requested <= instances) {
    return [];
  }
  return [
    {
      path: `${path}.instances`,
      message: `${whose} requests ${counted(requested, 'task')}, but the limit is ${instances}`,
      fits: `instances: ${instances} in total`,
    },
  ];
}

/** @param amounts resources of all tasks of the role */
function overTask({ path, limits }: Rule, role: string, amounts: Amounts): Violation[] {
  const requested = inLowerCase(amounts);
  return Object.entries(limits.task ?? {}).flatMap(([resource, limit]) => {
    const amount = (requested[resource.toLowerCase()] ?? 0) / Math.max(1, requested.instances ?? 1);
    if (limit === undefined || amount <= limit) {
      return [];
    }
    return [
      {
        path: `${path}.task.${resource}`,
        message: `each task of role ${role} requests ${describeAmount(resource, amount)}, but the limit is ${describeAmount(resource, limit)}`,
        fits: `roles.${role}.resources.${resource}: ${written(resource, limit)}`,
      },
    ];
  });
}

/** `task` limits for users, groups and queues apply to all of a job's containers, including the ApplicationMaster's container. */
function overMaster({ path, limits }: Rule, master: Amounts): Violation[] {
  return Object.entries(limits.task ?? {}).flatMap(([resource, limit]) => {
    const usual = Object.hasOwn(DEFAULT_MASTER, resource) ? DEFAULT_MASTER[resource as keyof typeof DEFAULT_MASTER] : 0;
    const amount = inLowerCase(master)[resource.toLowerCase()] ?? 0;
    if (limit === undefined || amount <= Math.max(limit, usual)) {
      return [];
    }
    return [
      {
        path: `${path}.task.${resource}`,
        message: `the ApplicationMaster requests ${describeAmount(resource, amount)}, but the limit is ${describeAmount(resource, limit)}`,
        fits: `master.resources.${resource}: ${written(resource, Math.max(limit, usual))}`,
      },
    ];
  });
}

function overWhole({ path, role }: Rule, key: 'job' | 'total', limits: Amounts, requested: Amounts, whose: string): Violation[] {
  return Object.entries(limits).flatMap(([resource, limit]) => {
    const amount = requested[resource.toLowerCase()] ?? 0;
    if (limit === undefined || amount <= limit) {
      return [];
    }
    const withMaster = role === null && Object.hasOwn(DEFAULT_MASTER, resource) ? ', including its ApplicationMaster' : '';
    const limited = key === 'total' ? 'the limit for all running jobs together' : 'the limit';
    return [
      {
        path: `${path}.${key}.${resource}`,
        message: `${whose} requests ${describeAmount(resource, amount)} in total${withMaster}, but ${limited} is ${describeAmount(resource, limit)}`,
        fits: `at most ${describeAmount(resource, limit)} in total (instances times ${resource}${withMaster === '' ? '' : `, plus master.resources.${resource}`})`,
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
      message: `the job's timeout is ${formatDuration(job.timeoutMs)}, but the limit is ${formatDuration(timeout)}`,
      fits: `timeout: ${Math.floor(timeout / 1000)}s`,
    });
  }
  if (nodeLabels !== undefined) {
    const requested = new Map<string, string>();
    for (const role of job.roles) {
      if (role.nodeLabel !== null) {
        requested.set(role.nodeLabel, `roles.${role.name}.nodeLabel`);
      }
    }
    if (job.master.nodeLabel !== null) {
      requested.set(job.master.nodeLabel, 'master.nodeLabel');
    }
    for (const [label, key] of requested) {
      if (nodeLabels.includes(label)) {
        continue;
      }
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

function written(resource: string, amount: number): string {
  return resource === 'memory' ? `${amount}m` : String(amount);
}
