import { type FinalValue, withFinalValues } from '../conf/final-values.ts';
import { APPLICATION_TYPE, type FrozenJob } from '../conf/job.ts';
import {
  describeShortage,
  idleLimitOf,
  type Owner,
  queueName,
  setsTotals,
  shortagesOf,
  timeoutOf,
  type Violation,
  violationsOf,
} from '../conf/quotas.ts';
import { isRoleTag, roleTags } from '../conf/role-tags.ts';
import type { Site } from '../conf/site.ts';
import type { Application } from '../hadoop/resource-manager-answers.ts';
import { holdsTasks, runningJob } from '../hadoop/running-job.ts';
import type { JobLimits, Snapshot } from './events.ts';

/** Whether a job may begin. */
export type Judgement =
  | { readonly type: 'admitted' }
  /** Others have what it asks for; it may when they have ended. */
  | { readonly type: 'waits'; readonly reason: string }
  | { readonly type: 'refused'; readonly reason: string };

/** What the cluster itself says, whatever job.json does. */
export interface ClusterView {
  readonly applicationId: string;
  /** Whose application YARN runs. */
  readonly user: string;
  readonly site: Site;
  /** Of the job, as the ResourceManager has put it. */
  readonly queue: string;
  /** All applications of tony-ts that are not over, this one included; none where the site sets no totals. */
  readonly applications: readonly Application[];
  /** Ids of those that were submitted before this one. */
  readonly earlier: ReadonlySet<string>;
  /** Of every user above. */
  readonly groupsOf: (user: string) => readonly string[];
}

function ownerOf({ user, ...view }: ClusterView): Owner {
  return { user, groups: view.groupsOf(user), queue: queueName(view.queue) };
}

/** What holds for a job that runs: a limit that was lowered takes nothing away, but nothing is added to what is beyond it. */
export function limitsFor(frozen: FrozenJob, view: ClusterView): JobLimits {
  const { quotas } = view.site;
  const owner = ownerOf(view);
  return {
    timeout: timeoutOf(quotas, owner),
    idle: idleLimitOf(quotas, owner),
    mayGrow: judgeByQuotas(frozen, view).type === 'admitted',
  };
}

/**
 * Judged by the site file of the cluster and by what runs there; of two jobs the one that was submitted first goes first. One that has begun goes
 * before all that have not, however it came to that: what it has is gone.
 */
export function judge(frozen: FrozenJob, view: ClusterView): Judgement {
  const lie = lieOf(frozen, view);
  if (lie !== null) return { type: 'refused', reason: `${lie} Submit it with tony-ts.` };
  const { final, from } = view.site;
  const { changed: ofJob } = withFinalValues(frozen.job, final);
  const changed = [...ofJob, ...(ofJob.some(({ path }) => path[0] === 'queue') ? [] : otherQueue(view))];
  if (changed.length > 0) return { type: 'refused', reason: describeChanged(changed, from) };
  return judgeByQuotas(frozen, view);
}

/**
 * How a job is judged as an attempt finds it; null: not at all. Containers that live show that it has been admitted. That it had begun its user may
 * have written into its saved state: without containers it is judged like any other. Where it is true all the same, it waits for what would
 * refuse it to change: limits that were set since end no job.
 */
export function judgeOf(snapshot: Pick<Snapshot, 'generation'> | null, survivors: number): typeof judge | null {
  if (survivors > 0) return null;
  return snapshot === null || snapshot.generation === 0 ? judge : judgeAgain;
}

function judgeAgain(frozen: FrozenJob, view: ClusterView): Judgement {
  // After a ResourceManager's own restart containers are listed late.
  const own = view.applications.find(({ id }) => id === view.applicationId);
  if (own !== undefined && holdsTasks(own)) return { type: 'admitted' };
  const judgement = judge(frozen, view);
  return judgement.type === 'refused' ? { type: 'waits', reason: judgement.reason } : judgement;
}

function judgeByQuotas({ job }: FrozenJob, view: ClusterView): Judgement {
  const { quotas, from } = view.site;
  const owner = ownerOf(view);
  const violations = violationsOf(job, owner, quotas);
  if (violations.length > 0) return { type: 'refused', reason: describeViolations(violations, from) };
  if (!setsTotals(quotas)) return { type: 'admitted' };
  const own = view.applications.find(({ id }) => id === view.applicationId);
  if (own === undefined) {
    const reason = `The ResourceManager does not list the job among the applications of type ${APPLICATION_TYPE}, by which jobs are counted.`;
    return { type: 'refused', reason: `${reason} Submit it with tony-ts.` };
  }
  if (!tellsTheTruth(own, job)) {
    const reason = `The tags of the application do not tell what the job asks for by role (${roleTags(job).join(' ') || 'names of roles are too long'}).`;
    return { type: 'refused', reason: `${reason} Submit it with tony-ts, and with shorter names of roles where they do not fit.` };
  }
  const first = view.applications.filter((other) => other !== own && (view.earlier.has(other.id) || holdsTasks(other)));
  const shortages = shortagesOf(
    job,
    owner,
    quotas,
    first.map((application) => runningJob(application, view.groupsOf)),
  );
  if (shortages.length === 0) return { type: 'admitted' };
  const reason = shortages.map(describeShortage).join('; ');
  return quotas.over === 'wait'
    ? { type: 'waits', reason: `Waits for other jobs to end: ${reason}.` }
    : { type: 'refused', reason: `Too little is left: ${reason}. Submit again when other jobs have ended.` };
}

/** What job.json says of itself that is not so; null when it is honest. */
function lieOf(frozen: FrozenJob, { user, applicationId }: ClusterView): string | null {
  if (frozen.user !== user) return `job.json is of user ${frozen.user}; YARN runs it for ${user}.`;
  return frozen.applicationId === applicationId ? null : `job.json is of ${frozen.applicationId}; YARN runs it as ${applicationId}.`;
}

/** Where the ResourceManager has put the job counts, not where job.json says that it is. */
function otherQueue({ queue, site }: ClusterView): FinalValue[] {
  const is = site.final.queue;
  return is === undefined || queueName(is) === queueName(queue) ? [] : [{ path: ['queue'], was: queue, is }];
}

/** Others' sums are made of these tags. YARN writes them in small letters. */
function tellsTheTruth({ tags }: Application, job: FrozenJob['job']): boolean {
  const expected = roleTags(job).map((tag) => tag.toLowerCase());
  const told = tags.filter(isRoleTag);
  return expected.length > 0 && told.length === expected.length && expected.every((tag) => told.includes(tag));
}

function describeChanged(changed: readonly FinalValue[], from: string | null): string {
  const each = changed.map(({ path, was, is }) => `${path.join('.')} is ${was ?? 'not set'}, and has to be ${is}`);
  return `The job does not have the final values of ${from ?? 'the site file'}: ${each.join('; ')}. Submit it with tony-ts.`;
}

function describeViolations(violations: readonly Violation[], from: string | null): string {
  const each = violations.map(({ path, message, fits }) => `${path}: ${message} (fits: ${fits})`);
  return `The job is beyond what ${from ?? 'the site file'} allows. ${each.join('; ')}.`;
}
