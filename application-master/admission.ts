import { APPLICATION_TYPE, type FrozenJob, type Job } from '../conf/job.ts';
import { describeShortage, holdsTasks, placeJobs, runningJob, shortagesWithin } from '../conf/quota-order.ts';
import { type Violation, violationsOf } from '../conf/quota-violations.ts';
import { type Demand, demandOf, isSameDemand, type Owner, queueName, setsTotals, timeLimitOf } from '../conf/quotas.ts';
import { type FinalValue, withFinalValues } from '../conf/resolve/final-values.ts';
import type { SiteConfig } from '../conf/resolve/site.ts';
import { demandOfTags, roleTags } from '../conf/role-tags.ts';
import { amountsOf } from '../hadoop/yarn/resource-amounts.ts';
import type { Application } from '../hadoop/yarn/resource-manager-answers.ts';
import { inOrderOfSubmission } from '../hadoop/yarn/submission-order.ts';
import type { RunningJobLimits } from './job/state/events.ts';
import type { Snapshot } from './job/state/snapshot-format.ts';

export type AdmissionDecision =
  | { readonly type: 'admitted' }
  /** The job cannot start yet. The gatekeeper checks the job again later. */
  | { readonly type: 'waits'; readonly reason: string }
  | { readonly type: 'refused'; readonly reason: string };

/** Data about the job that the cluster reports. Users can edit job.json, but not this data. */
export interface ClusterView {
  readonly jobId: string;
  readonly user: string;
  readonly site: SiteConfig;
  readonly queue: string;
  /** The ResourceManager's report on the job's application, or null if there is no report. */
  readonly own: Application | null;
  /** Memory size of the smallest container that the cluster allocates, in MiB. YARN rounds memory requests up to multiples of this size. */
  readonly minimumMemoryMb: number;
  /** All running tony-ts applications, including this one. Empty if the site file does not limit total usage. */
  readonly applications: readonly Application[];
  readonly earlier: ReadonlySet<string>;
  readonly groupsOf: (user: string) => readonly string[];
}

function ownerOf({ user, ...view }: ClusterView): Owner {
  return { user, groups: view.groupsOf(user), queue: queueName(view.queue) };
}

/**
 * Returns the limits for a running job. If the admin lowers a limit below the job's usage, the job keeps its containers but cannot request
 * more.
 */
export function limitsFor(frozen: FrozenJob, view: ClusterView): RunningJobLimits {
  const { quotas } = view.site;
  const owner = ownerOf(view);
  return {
    timeout: timeLimitOf(quotas, owner, 'timeout'),
    idle: timeLimitOf(quotas, owner, 'idle'),
    mayGrow: checkQuotas(frozen.job, view).type === 'admitted',
  };
}

/**
 * Decides whether a job may start, based on the cluster's site file and its running applications. Waiting jobs are admitted in submission
 * order. Jobs that have containers come before all waiting jobs, because their resources are already in use.
 */
export function checkLimits(frozen: FrozenJob, view: ClusterView): AdmissionDecision {
  const mismatch = identityMismatch(frozen, view);
  if (mismatch !== null) {
    return { type: 'refused', reason: `${mismatch} Submit the job with tony-ts.` };
  }
  const { final, from } = view.site;
  const { changed: ofJob } = withFinalValues(frozen.job, final);
  const changed = [...ofJob, ...otherInYarn(view).filter(({ path }) => ofJob.every((each) => each.path[0] !== path[0]))];
  if (changed.length > 0) {
    return { type: 'refused', reason: describeChanged(changed, from) };
  }
  return checkQuotas(frozen.job, view);
}

/**
 * Fills in the values that YARN has chosen for the job: the ApplicationMaster's resources, and the application's node label for roles that
 * do not set one. If YARN has merely rounded the ApplicationMaster's memory up, keeps the requested amount.
 */
function asGranted(job: Job, { own, minimumMemoryMb }: ClusterView): Job {
  const { memory = 0, vcores = 0 } = amountsOf(own?.usedByMaster ?? {});
  const { master } = job;
  const roles = job.roles.map((role) => ({ ...role, nodeLabel: role.nodeLabel ?? own?.nodeLabel ?? null }));
  const step = Math.max(1, minimumMemoryMb);
  const requested = master.resources;
  const rounded = Math.ceil(requested.memoryMb / step) * step;
  const memoryMb = memory > rounded ? memory : requested.memoryMb;
  return { ...job, roles, master: { ...master, resources: { memoryMb, vcores: Math.max(requested.vcores, vcores) } } };
}

/** Returns the demand of a job as YARN has granted it, with all resource types of the ApplicationMaster's container. */
function grantedDemand(granted: Job, { own }: ClusterView): Demand {
  const demand = demandOf(granted);
  return { ...demand, master: { ...amountsOf(own?.usedByMaster ?? {}), ...demand.master } };
}

/**
 * Returns the reason why a running job must end, or null if it may continue. Checks the limits only if the user has moved the job to
 * another queue, or if the resources in job.json differ from the application's tags.
 * @param queue the queue in which this attempt admitted the job. Null if this attempt took over running containers, because these prove
 * that an earlier attempt admitted the job in the queue to which it was submitted.
 */
export function refusalOfRunning(frozen: FrozenJob, view: ClusterView, queue: string | null): string | null {
  const { job } = frozen;
  const now = queueName(view.queue);
  const before = queue ?? queueName(job.queue);
  const isProven = queue !== null || (view.own !== null && tagsMatch(view.own, job));
  if (isProven && now === before) {
    return null;
  }
  const decision = checkLimits(frozen, view);
  if (decision.type === 'admitted') {
    return null;
  }
  const why = isProven
    ? `The application was admitted in queue ${before} and moved to queue ${now}`
    : "job.json requests resources that differ from the application's tags";
  return `${why}, so the limits were checked again. ${decision.reason}`;
}

/**
 * Returns the function that decides whether the job may start, or null if running containers prove that an earlier attempt admitted the
 * job. The saved state does not prove this, because the user can edit the file that contains it. If the saved state says that the job has
 * run before but it now exceeds the limits, the job waits instead of failing, because a limit that the admin has set since then must not
 * end it.
 */
export function admissionPolicy(snapshot: Pick<Snapshot, 'generation'> | null, survivors: number): typeof checkLimits | null {
  if (survivors > 0) {
    return null;
  }
  return snapshot === null || snapshot.generation === 0 ? checkLimits : checkLimitsAgain;
}

function checkLimitsAgain(frozen: FrozenJob, view: ClusterView): AdmissionDecision {
  // After the ResourceManager has restarted, running containers appear in the application report before they appear in the responses to the
  // ApplicationMaster.
  const { own } = view;
  if (own !== null && holdsTasks(own) && tagsMatch(own, frozen.job)) {
    return { type: 'admitted' };
  }
  const decision = checkLimits(frozen, view);
  return decision.type === 'refused' ? { type: 'waits', reason: decision.reason } : decision;
}

function checkQuotas(job: Job, view: ClusterView): AdmissionDecision {
  const { quotas, final, from } = view.site;
  const owner = ownerOf(view);
  const granted = asGranted(job, view);
  const demand = grantedDemand(granted, view);
  const violations = violationsOf(granted, owner, quotas, demand);
  if (violations.length > 0) {
    return { type: 'refused', reason: describeViolations(violations, from) };
  }
  if (!setsTotals(quotas)) {
    return { type: 'admitted' };
  }
  const { own } = view;
  if (own === null || !view.applications.includes(own)) {
    const reason = `The ResourceManager does not list the job among the applications of type ${APPLICATION_TYPE}. Quotas count only these applications.`;
    return { type: 'refused', reason: `${reason} Submit the job with tony-ts.` };
  }
  // Totals are based on the requested amounts in the tags, because schedulers round granted amounts in different ways.
  if (!tagsMatch(own, job)) {
    const expected = roleTags(job).join(' ') || 'the role names are too long for tags';
    const reason = `The application's tags do not state the resources that the job requests for each role (${expected}).`;
    return { type: 'refused', reason: `${reason} Submit the job with tony-ts, and shorten role names that do not fit into a tag.` };
  }
  const first = view.applications.filter((other) => other !== own && (view.earlier.has(other.id) || holdsTasks(other)));
  const { taken } = placeJobs(
    { quotas, final },
    inOrderOfSubmission(first).map((application) => runningJob(application, view.groupsOf)),
  );
  const shortages = shortagesWithin(demand, owner, quotas, taken);
  if (shortages.length === 0) {
    return { type: 'admitted' };
  }
  const reason = shortages.map(describeShortage).join('; ');
  return quotas.over === 'wait'
    ? { type: 'waits', reason: `Waiting for other jobs to end: ${reason}.` }
    : { type: 'refused', reason: `Too little of the quota is left: ${reason}. Submit the job again when other jobs have ended.` };
}

/** If YARN and job.json name different users or applications, returns a sentence that says so. Otherwise returns null. */
function identityMismatch(frozen: FrozenJob, { user, jobId }: ClusterView): string | null {
  if (frozen.user !== user) {
    return `job.json belongs to user ${frozen.user}, but YARN runs the application for ${user}.`;
  }
  return frozen.jobId === jobId ? null : `job.json belongs to ${frozen.jobId}, but YARN runs it as ${jobId}.`;
}

/**
 * Returns the final values from which the application differs in YARN: its queue, and a priority that is higher. Uses what the
 * ResourceManager reports, because users can edit job.json and update the priority. YARN may have lowered the priority to the cluster's
 * maximum.
 */
function otherInYarn({ queue, own, site }: ClusterView): FinalValue[] {
  const { queue: finalQueue, priority } = site.final;
  const moved = finalQueue !== undefined && queueName(finalQueue) !== queueName(queue);
  return [
    ...(moved ? [{ path: ['queue'], was: queue, is: finalQueue }] : []),
    ...(own !== null && priority !== undefined && own.priority > priority
      ? [{ path: ['priority'], was: String(own.priority), is: String(priority) }]
      : []),
  ];
}

/** Returns true if the tags and job.json declare the same resources. */
function tagsMatch({ tags }: Application, job: Job): boolean {
  const declared = demandOfTags(tags);
  return declared !== null && isSameDemand(declared, demandOf(job));
}

function describeChanged(changed: readonly FinalValue[], from: string | null): string {
  const each = changed.map(({ path, was, is }) => `${path.join('.')} is ${was ?? 'not set'}, but must be ${is}`);
  return `The job does not have the final values that ${from ?? 'the site file'} sets: ${each.join('; ')}. Submit the job with tony-ts.`;
}

function describeViolations(violations: readonly Violation[], from: string | null): string {
  const each = violations.map(({ path, message, fits }) => `${path}: ${message} (allowed: ${fits})`);
  return `The job exceeds the limits in ${from ?? 'the site file'}. ${each.join('; ')}.`;
}
