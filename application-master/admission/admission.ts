import { type FinalValue, withFinalValues } from '../../conf/final-values.ts';
import { APPLICATION_TYPE, type FrozenJob, type Job } from '../../conf/job.ts';
import { type Violation, violationsOf } from '../../conf/quota-violations.ts';
import {
  demandOf,
  describeShortage,
  isSameDemand,
  type Owner,
  queueName,
  setsTotals,
  shortagesOf,
  timeLimitOf,
} from '../../conf/quotas.ts';
import { demandOfTags, roleTags } from '../../conf/role-tags.ts';
import type { SiteConfig } from '../../conf/site.ts';
import type { Application } from '../../hadoop/yarn/resource-manager-answers.ts';
import { amountsOf, holdsTasks, runningJob } from '../../hadoop/yarn/running-job.ts';
import type { JobLimits, Snapshot } from '../job/events.ts';

/** Whether a job may start. */
export type Judgement =
  | { readonly type: 'admitted' }
  /** Other jobs hold the resources that this job requests; it may start when those jobs have ended. */
  | { readonly type: 'waits'; readonly reason: string }
  | { readonly type: 'refused'; readonly reason: string };

/** The cluster's own view of the job, independent of job.json. */
export interface ClusterView {
  readonly applicationId: string;
  /** The user for whom YARN runs the application. */
  readonly user: string;
  readonly site: SiteConfig;
  /** The job's queue according to the ResourceManager. */
  readonly queue: string;
  /** The job's application as reported by the ResourceManager; null if it is not reported and the site sets no totals. */
  readonly own: Application | null;
  /** YARN grants memory in multiples of this (MiB). */
  readonly minimumMemoryMb: number;
  /** All tony-ts applications that have not ended, including this one; empty if the site sets no totals. */
  readonly applications: readonly Application[];
  /** IDs of the applications that were submitted before this one. */
  readonly earlier: ReadonlySet<string>;
  /** The groups of any user above. */
  readonly groupsOf: (user: string) => readonly string[];
}

function ownerOf({ user, ...view }: ClusterView): Owner {
  return { user, groups: view.groupsOf(user), queue: queueName(view.queue) };
}

/** The limits for a running job. A lowered limit takes no containers away, but stops the job from growing. */
export function limitsFor(frozen: FrozenJob, view: ClusterView): JobLimits {
  const { quotas } = view.site;
  const owner = ownerOf(view);
  return {
    timeout: timeLimitOf(quotas, owner, 'timeout'),
    idle: timeLimitOf(quotas, owner, 'idle'),
    mayGrow: judgeByQuotas(frozen.job, view).type === 'admitted',
  };
}

/**
 * Judges a job by the cluster's site file and its running applications. Of two waiting jobs, the one submitted first is admitted first.
 * Jobs that hold containers precede all waiting jobs, however they started, because their resources are in use.
 */
export function judge(frozen: FrozenJob, view: ClusterView): Judgement {
  const mismatch = identityMismatch(frozen, view);
  if (mismatch !== null) {
    return { type: 'refused', reason: `${mismatch} Submit it with tony-ts.` };
  }
  const { final, from } = view.site;
  const { changed: ofJob } = withFinalValues(frozen.job, final);
  const changed = [...ofJob, ...(ofJob.some(({ path }) => path[0] === 'queue') ? [] : otherQueue(view))];
  if (changed.length > 0) {
    return { type: 'refused', reason: describeChanged(changed, from) };
  }
  return judgeByQuotas(frozen.job, view);
}

/**
 * Completes the job with submission data outside job.json: the size of the ApplicationMaster, and the application's node label for roles
 * that set none. Amounts that YARN rounded up to a multiple of its smallest container count as requested.
 */
function asGranted(job: Job, { own, minimumMemoryMb }: ClusterView): Job {
  const { memory = 0, vcores = 0 } = amountsOf(own?.usedByMaster ?? {});
  const { master } = job;
  const roles = job.roles.map((role) => ({ ...role, nodeLabel: role.nodeLabel ?? own?.nodeLabel ?? null }));
  const rounded = roundedUp(master.memoryMb, minimumMemoryMb);
  const memoryMb = memory > rounded ? memory : master.memoryMb;
  return { ...job, roles, master: { ...master, memoryMb, vcores: Math.max(master.vcores, vcores) } };
}

function roundedUp(amount: number, step: number): number {
  return step > 0 ? Math.ceil(amount / step) * step : amount;
}

/**
 * Why a running job must end; null if it may continue. If the user moves an admitted job to another queue, it is judged again as if it had
 * been submitted there.
 *
 * @param queue the queue in which the job was admitted; null if this attempt found containers of the previous attempt. These containers
 * prove that the job was admitted with the demand in its application tags, which never change, and in the queue to which it was submitted.
 * The job is judged again only if its demand or its queue differs from these.
 */
export function refusalOfRunning(frozen: FrozenJob, view: ClusterView, queue: string | null): string | null {
  const { job } = frozen;
  const now = queueName(view.queue);
  const before = queue ?? queueName(job.queue);
  const asTold = queue !== null || (view.own !== null && tagsMatch(view.own, job));
  if (asTold && now === before) {
    return null;
  }
  const judgement = judge(frozen, view);
  if (judgement.type === 'admitted') {
    return null;
  }
  const why = asTold
    ? `The application was admitted in queue ${before} and moved to queue ${now}`
    : "job.json requests resources that differ from the application's tags";
  return `${why}, so its limits were checked again. ${judgement.reason}`;
}

/**
 * How to judge a job when an attempt starts; null if it needs no judgement. Running containers prove that the job was admitted. The saved
 * state alone proves nothing, because its user can write it: without containers the job is judged like any other. If it was really admitted
 * before, a refusal becomes a wait, because limits set since then must not end a job.
 */
export function admissionPolicy(snapshot: Pick<Snapshot, 'generation'> | null, survivors: number): typeof judge | null {
  if (survivors > 0) {
    return null;
  }
  return snapshot === null || snapshot.generation === 0 ? judge : judgeAgain;
}

function judgeAgain(frozen: FrozenJob, view: ClusterView): Judgement {
  // After a ResourceManager restart, containers are listed late.
  const { own } = view;
  if (own !== null && holdsTasks(own) && tagsMatch(own, frozen.job)) {
    return { type: 'admitted' };
  }
  const judgement = judge(frozen, view);
  return judgement.type === 'refused' ? { type: 'waits', reason: judgement.reason } : judgement;
}

function judgeByQuotas(job: Job, view: ClusterView): Judgement {
  const { quotas, from } = view.site;
  const owner = ownerOf(view);
  const granted = asGranted(job, view);
  const violations = violationsOf(granted, owner, quotas);
  if (violations.length > 0) {
    return { type: 'refused', reason: describeViolations(violations, from) };
  }
  if (!setsTotals(quotas)) {
    return { type: 'admitted' };
  }
  const { own } = view;
  if (own === null || !view.applications.includes(own)) {
    const reason = `The ResourceManager does not list the job among the applications of type ${APPLICATION_TYPE}, which the quotas count.`;
    return { type: 'refused', reason: `${reason} Submit it with tony-ts.` };
  }
  // The tags state the requested amounts. Schedulers round up in ways that are not visible in a node's configuration.
  if (!tagsMatch(own, job)) {
    const expected = roleTags(job).join(' ') || 'the role names are too long for tags';
    const reason = `The application's tags do not state what the job requests for each role (${expected}).`;
    return { type: 'refused', reason: `${reason} Submit it with tony-ts, and shorten role names that do not fit into a tag.` };
  }
  const first = view.applications.filter((other) => other !== own && (view.earlier.has(other.id) || holdsTasks(other)));
  const shortages = shortagesOf(
    granted,
    owner,
    quotas,
    first.map((application) => runningJob(application, view.groupsOf)),
  );
  if (shortages.length === 0) {
    return { type: 'admitted' };
  }
  const reason = shortages.map(describeShortage).join('; ');
  return quotas.over === 'wait'
    ? { type: 'waits', reason: `Waits for other jobs to end: ${reason}.` }
    : { type: 'refused', reason: `Too little of the quota is left: ${reason}. Submit the job again when other jobs have ended.` };
}

/** How job.json contradicts YARN about the job's user or application ID; null if they agree. */
function identityMismatch(frozen: FrozenJob, { user, applicationId }: ClusterView): string | null {
  if (frozen.user !== user) {
    return `job.json belongs to user ${frozen.user}, but YARN runs the application for ${user}.`;
  }
  return frozen.applicationId === applicationId
    ? null
    : `job.json belongs to ${frozen.applicationId}, but YARN runs it as ${applicationId}.`;
}

/** The final queue is compared with the ResourceManager's queue for the job, not with the one in job.json. */
function otherQueue({ queue, site }: ClusterView): FinalValue[] {
  const is = site.final.queue;
  return is === undefined || queueName(is) === queueName(queue) ? [] : [{ path: ['queue'], was: queue, is }];
}

/** The sums of other jobs are computed from their tags, so the tags must state the same demand as job.json. */
function tagsMatch({ tags }: Application, job: Job): boolean {
  const told = demandOfTags(tags);
  return told !== null && isSameDemand(told, demandOf(job));
}

function describeChanged(changed: readonly FinalValue[], from: string | null): string {
  const each = changed.map(({ path, was, is }) => `${path.join('.')} is ${was ?? 'not set'}, but must be ${is}`);
  return `The job does not have the final values that ${from ?? 'the site file'} sets: ${each.join('; ')}. Submit it with tony-ts.`;
}

function describeViolations(violations: readonly Violation[], from: string | null): string {
  const each = violations.map(({ path, message, fits }) => `${path}: ${message} (what fits: ${fits})`);
  return `The job exceeds the limits in ${from ?? 'the site file'}. ${each.join('; ')}.`;
}
