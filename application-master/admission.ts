import type { FrozenJob } from '../conf/job.ts';
import {
  describeShortage,
  idleLimitOf,
  type Owner,
  queueName,
  shortagesOf,
  timeoutOf,
  type Violation,
  violationsOf,
} from '../conf/quotas.ts';
import { isRoleTag, roleTags } from '../conf/role-tags.ts';
import type { Site } from '../conf/site.ts';
import type { Application } from '../hadoop/resource-manager-answers.ts';
import { runningJob } from '../hadoop/running-job.ts';
import type { JobLimits } from './events.ts';

/** Whether a job may begin. */
export type Judgement =
  | { readonly type: 'admitted' }
  /** Others have what it asks for; it may when they have ended. */
  | { readonly type: 'waits'; readonly reason: string }
  | { readonly type: 'refused'; readonly reason: string };

/** What the cluster itself says, where the job's own configuration leads to it. */
export interface ClusterView {
  readonly site: Site;
  /** Of the job, as the ResourceManager has put it. */
  readonly queue: string;
  /** All applications of tony-ts that are not over, this one included. */
  readonly applications: readonly Application[];
  /** Of every user above. */
  readonly groupsOf: (user: string) => readonly string[];
}

function ownerOf({ user }: FrozenJob, view: ClusterView): Owner {
  return { user, groups: view.groupsOf(user), queue: queueName(view.queue) };
}

/** What holds for a job that runs: a limit that was lowered takes nothing away, but nothing is added to what is beyond it. */
export function limitsFor(frozen: FrozenJob, view: ClusterView): JobLimits {
  const { quotas } = view.site;
  const owner = ownerOf(frozen, view);
  return {
    timeout: timeoutOf(quotas, owner),
    idle: idleLimitOf(quotas, owner),
    mayGrow: judge(frozen, view).type === 'admitted',
  };
}

/** Judged by the site file of the cluster and by what runs there; of two jobs the one that was submitted first goes first. */
export function judge(frozen: FrozenJob, view: ClusterView): Judgement {
  const { job, applicationId } = frozen;
  const { quotas, from } = view.site;
  const owner = ownerOf(frozen, view);
  const violations = violationsOf(job, owner, quotas);
  if (violations.length > 0) return { type: 'refused', reason: describeViolations(violations, from) };
  const own = view.applications.find(({ id }) => id === applicationId);
  if (own !== undefined && !tellsTheTruth(own, job)) {
    const reason = `The tags of the application do not tell what the job asks for by role (${roleTags(job).join(' ') || 'names of roles are too long'}).`;
    return { type: 'refused', reason: `${reason} Submit it with tony-ts, and with shorter names of roles where they do not fit.` };
  }
  const earlier = view.applications.filter((other) => isEarlier(other.id, applicationId));
  const shortages = shortagesOf(
    job,
    owner,
    quotas,
    earlier.map((application) => runningJob(application, view.groupsOf)),
  );
  if (shortages.length === 0) return { type: 'admitted' };
  const reason = shortages.map(describeShortage).join('; ');
  return quotas.over === 'wait'
    ? { type: 'waits', reason: `Waits for other jobs to end: ${reason}.` }
    : { type: 'refused', reason: `Too little is left: ${reason}. Submit again when other jobs have ended.` };
}

/** Others' sums are made of these tags. YARN writes them in small letters. */
function tellsTheTruth({ tags }: Application, job: FrozenJob['job']): boolean {
  const expected = roleTags(job).map((tag) => tag.toLowerCase());
  const told = tags.filter(isRoleTag);
  return expected.length > 0 && told.length === expected.length && expected.every((tag) => told.includes(tag));
}

/** `application_<start of the ResourceManager>_<number>`: numbers grow, and so does the start when a ResourceManager begins anew. */
function isEarlier(one: string, other: string): boolean {
  const [started, number] = partsOf(one);
  const [otherStarted, otherNumber] = partsOf(other);
  return started === otherStarted ? number < otherNumber : started < otherStarted;
}

function partsOf(applicationId: string): [started: number, number: number] {
  const [, started, number] = /^application_(\d+)_(\d+)$/.exec(applicationId) ?? [];
  return [Number(started ?? 0), Number(number ?? 0)];
}

function describeViolations(violations: readonly Violation[], from: string | null): string {
  const each = violations.map(({ path, message, fits }) => `${path}: ${message} (fits: ${fits})`);
  return `The job is beyond what ${from ?? 'the site file'} allows. ${each.join('; ')}.`;
}
