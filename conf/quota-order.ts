import { amountsOf as reportedAmounts } from '../hadoop/yarn/resource-amounts.ts';
import type { Application } from '../hadoop/yarn/resource-manager-answers.ts';
import { firstNames } from '../platform/text/first-names.ts';
import { type Job, TENSORBOARD_ROLE } from './job.ts';
import { type JobPart, roleValues } from './job-part.ts';
import type { Amounts, Quotas } from './quota-schema.ts';
import { demandViolations } from './quota-violations.ts';
import {
  amountsOf,
  type Demand,
  demandOf,
  describeAmount,
  inLowerCase,
  type Owner,
  queueName,
  type Rule,
  type RunningJob,
  rulesFor,
  type Shortage,
  scopesWith,
  takenBy,
} from './quotas.ts';
import { demandOfTags } from './role-tags.ts';

/*
 * Which of the cluster's jobs count against a job. Jobs that hold containers come first, then the others in the order in which they were
 * submitted. Every user can write arbitrary demands into the tags of an application, so a demand counts only as far as the limits of its own
 * owner allow the job to start. Beyond that, the job counts only with the containers that it holds.
 */

/** Application with the demand in its tags, and with what the ResourceManager reports. */
export interface CountedJob extends RunningJob {
  /** Whether the job has containers for its tasks. */
  readonly holds: boolean;
  /** Resources that the ResourceManager reports for the tasks and for the ApplicationMaster, with names in lower case. */
  readonly held: { readonly tasks: Amounts; readonly master: Amounts };
}

export interface PlacedJob {
  /** The job, with the amounts that count against other jobs. */
  readonly job: CountedJob;
  /** Totals for which the job waits. Empty for a job that holds containers. */
  readonly shortages: readonly Shortage[];
}

/** What a site file says about the resources of jobs. */
export interface Limits {
  readonly quotas: Quotas;
  readonly final: JobPart;
}

export interface PlacedJobs {
  /** In the order in which they were submitted. */
  readonly placed: readonly PlacedJob[];
  /** What the jobs take from the totals of a job that is submitted after them. */
  readonly taken: TakenResources;
}

/**
 * Takes time in proportion to the number of jobs.
 * @param jobs in the order in which they were submitted
 */
export function placeJobs(limits: Limits, jobs: readonly CountedJob[]): PlacedJobs {
  const { quotas } = limits;
  const placed = new Map<CountedJob, PlacedJob>();
  const taken = new TakenResources();
  for (const job of [...jobs.filter(({ holds }) => holds), ...jobs.filter(({ holds }) => !holds)]) {
    const short = shortRules(job, job, quotas, taken);
    const shortages = short.flatMap((each) => each.shortages);
    const isPossible = !neverStarts(job, limits);
    if (job.holds || !isPossible) {
      const counted = isPossible && shortages.length === 0 ? job : limitedToHeld(job);
      placed.set(job, { job: counted, shortages: job.holds ? [] : shortages });
      taken.add(counted);
      continue;
    }
    placed.set(job, { job, shortages });
    // A job that waits for a total of its own user, group or queue takes nothing from jobs to which this total does not apply.
    taken.add(
      job,
      short.map(({ rule }) => rule.scope),
    );
  }
  return { placed: jobs.flatMap((job) => placed.get(job) ?? []), taken };
}

/**
 * Returns the totals that a job would exceed because other jobs have precedence.
 * @param taken what the jobs take that were submitted earlier or have already started
 */
export function shortagesOf(job: Pick<Job, 'roles' | 'master'>, owner: Owner, quotas: Quotas, taken: TakenResources): Shortage[] {
  return shortagesWithin(demandOf(job), owner, quotas, taken);
}

export function shortagesWithin(demand: Demand, owner: Owner, quotas: Quotas, taken: TakenResources): Shortage[] {
  return shortRules(demand, owner, quotas, taken).flatMap(({ shortages }) => shortages);
}

function shortRules(
  demand: Demand,
  owner: Owner,
  quotas: Quotas,
  taken: TakenResources,
): { readonly rule: Rule; readonly shortages: readonly Shortage[] }[] {
  const takenOf = taken.against(owner);
  return rulesFor(quotas, Object.keys(demand.roles), owner).flatMap((rule) => {
    const own = amountsOf({ ...demand, beyond: {} }, rule.role);
    const shortages = Object.entries(rule.limits.total ?? {}).flatMap(([resource, limit]): Shortage[] => {
      const asked = own[resource.toLowerCase()] ?? 0;
      if (limit === undefined || asked === 0) {
        return [];
      }
      const { used, holders, holderCount } = takenOf(rule, resource);
      return used + asked <= limit ? [] : [{ path: `${rule.path}.total.${resource}`, resource, limit, asked, used, holders, holderCount }];
    });
    return shortages.length === 0 ? [] : [{ rule, shortages }];
  });
}

export function describeShortage({ path, resource, limit, asked, used, ...holding }: Shortage): string {
  const held = `${describeHolders(holding, ['holds', 'hold'])} ${describeAmount(resource, used)}`;
  return `${path} is ${describeAmount(resource, limit)}, of which ${held}, and this job requests ${describeAmount(resource, asked)}`;
}

/** @param verbs the verb for one job, and for several jobs */
export function describeHolders(
  { holders, holderCount }: Pick<Shortage, 'holders' | 'holderCount'>,
  verbs: readonly [string, string],
): string {
  return `${firstNames(holders, holders.length, holderCount)} ${holderCount === 1 ? verbs[0] : verbs[1]}`;
}

/** Returns true if the site file would never let a job with this demand start. */
function neverStarts(job: CountedJob, { quotas, final }: Limits): boolean {
  return demandViolations(job, job, quotas).length > 0 || contradictsFinal(job, final);
}

/** Returns true if a role's demand differs from the final values, because the ApplicationMaster refuses such a job. */
function contradictsFinal({ roles }: Demand, { roles: final = {} }: JobPart): boolean {
  return Object.entries(roles).some(([name, amounts]) => {
    if (name === TENSORBOARD_ROLE) {
      return false;
    }
    const { instances, resources } = roleValues(final, name);
    const requested = inLowerCase(amounts);
    const tasks = requested.instances ?? 0;
    const differs = Object.entries(resources).some(
      ([resource, amount]) => amount !== undefined && (requested[resource.toLowerCase()] ?? 0) !== amount * tasks,
    );
    return differs || (instances !== undefined && instances !== tasks);
  });
}

function limitedToHeld(job: CountedJob): CountedJob {
  const { tasks, master } = job.held;
  const limited = (amounts: Amounts): Amounts =>
    Object.fromEntries(Object.entries(amounts).map(([name, amount = 0]) => [name, Math.min(amount, tasks[name.toLowerCase()] ?? 0)]));
  const roles = Object.fromEntries(Object.entries(job.roles).map(([name, amounts]) => [name, limited(amounts)]));
  return { ...job, roles, peak: limited(job.peak), master };
}

/** Converts an application to the form that quota checks use. */
export function runningJob(application: Application, groupsOf: (user: string) => readonly string[]): CountedJob {
  const tasks: Amounts = inLowerCase({ ...reportedAmounts(application.used), instances: tasksOf(application) });
  const master: Amounts = inLowerCase(reportedAmounts(application.usedByMaster));
  return {
    jobId: application.id,
    user: application.user,
    groups: groupsOf(application.user),
    queue: queueName(application.queue),
    ...takenBy(demandOfTags(application.tags), tasks, master),
    holds: holdsTasks(application),
    held: { tasks, master },
  };
}

/**
 * Returns true if the application has a container other than the ApplicationMaster's. YARN hides the number of containers from users
 * without permission to view the application. The function therefore also checks the resources in use, which all users can see.
 */
export function holdsTasks({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): boolean {
  return runningContainers > 1 || Object.values(used).some((amount) => amount > 0);
}

/** Returns the number of tasks. If YARN hides the number of containers from this user, returns 1 for an application that uses resources. */
function tasksOf({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): number {
  return Math.max(holdsTasks({ runningContainers, used }) ? 1 : 0, runningContainers - 1);
}

type Taken = Pick<Shortage, 'used' | 'holders' | 'holderCount'>;

interface Holder {
  readonly number: number;
  readonly id: string;
}

interface Sum {
  amount: number;
  jobs: number;
  readonly first: Holder[];
}

/** Jobs that count only against owners who belong to all of the scopes, with the sums of their resources. */
interface Part {
  readonly scopes: readonly string[];
  readonly sums: Map<string, Sum>;
}

/** Number of jobs that messages name. */
const NAMED = 3;
const JOB = 'job';
const BEYOND = 'beyond';

/**
 * Sums of what jobs take from totals. Adding a job and reading a sum take constant time, because an ApplicationMaster does both for each of
 * the cluster's jobs.
 */
export class TakenResources {
  readonly #parts = new Map<string, Part>();
  /** Parts by their first scope. Parts without scopes have the key ''. */
  readonly #byScope = new Map<string, Part[]>();
  #jobs = 0;

  static of(jobs: readonly RunningJob[]): TakenResources {
    const taken = new TakenResources();
    for (const job of jobs) {
      taken.add(job);
    }
    return taken;
  }

  /** @param scopes the job counts only against owners who belong to all of these scopes */
  add(job: RunningJob, scopes: readonly string[] = []): void {
    const { sums } = this.#part([...new Set(scopes)].sort());
    const holder = { number: this.#jobs, id: job.jobId };
    this.#jobs += 1;
    const beyond = inLowerCase(job.beyond);
    const roles = Object.entries(job.roles).map(([name, amounts]) => [name, inLowerCase(amounts)] as const);
    const all = [
      [JOB, amountsOf(job, null)] as const,
      [BEYOND, beyond] as const,
      ...roles.map(([name, each]) => [roleKey(name), each] as const),
    ];
    for (const scope of scopesWith(job)) {
      for (const [key, amounts] of all) {
        for (const [resource, amount] of Object.entries(amounts)) {
          addTo(sums, keyOf(scope, key, resource), amount, holder);
        }
      }
      // A job that holds a resource both for the role and beyond its demand counts as one job.
      for (const [name, amounts] of roles) {
        for (const [resource, amount] of Object.entries(beyond)) {
          addTo(sums, keyOf(scope, `both ${name}`, resource), Math.min(amount, amounts[resource] ?? 0), holder);
        }
      }
    }
  }

  /** Returns a function that reads how much is taken by the jobs that count against a job of this owner. */
  against(owner: Owner): (rule: Pick<Rule, 'scope' | 'role'>, resource: string) => Taken {
    const own = new Set(scopesWith(owner));
    const parts = ['', ...own]
      .flatMap((scope) => this.#byScope.get(scope) ?? [])
      .filter(({ scopes }) => scopes.every((each) => own.has(each)));
    return ({ scope, role }, resource) => {
      const read = (key: string): Sum[] => parts.flatMap(({ sums }) => sums.get(keyOf(scope, key, resource.toLowerCase())) ?? []);
      const sums = role === null ? read(JOB) : [...read(roleKey(role)), ...read(BEYOND)];
      const both = role === null ? [] : read(`both ${role}`);
      const first = new Map(sums.flatMap((sum) => sum.first.map(({ number, id }) => [number, id] as const)));
      return {
        used: sums.reduce((all, { amount }) => all + amount, 0),
        holders: [...first]
          .sort(([a], [b]) => a - b)
          .slice(0, NAMED)
          .map(([, id]) => id),
        holderCount: sums.reduce((all, { jobs }) => all + jobs, 0) - both.reduce((all, { jobs }) => all + jobs, 0),
      };
    };
  }

  #part(scopes: readonly string[]): Part {
    const key = scopes.join('\0');
    const known = this.#parts.get(key);
    if (known !== undefined) {
      return known;
    }
    const part = { scopes, sums: new Map() };
    this.#parts.set(key, part);
    const [first = ''] = scopes;
    this.#byScope.set(first, [...(this.#byScope.get(first) ?? []), part]);
    return part;
  }
}

function addTo(sums: Map<string, Sum>, key: string, amount: number, holder: Holder): void {
  if (amount <= 0) {
    return;
  }
  const sum = sums.get(key) ?? { amount: 0, jobs: 0, first: [] };
  sum.amount += amount;
  sum.jobs += 1;
  if (sum.first.length < NAMED) {
    sum.first.push(holder);
  }
  sums.set(key, sum);
}

function keyOf(scope: string, key: string, resource: string): string {
  return `${scope}\0${key}\0${resource}`;
}

function roleKey(name: string): string {
  return `role ${name}`;
}
