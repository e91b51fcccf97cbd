import type { Job } from '../../conf/job.ts';
import { type Violation, violationsOf } from '../../conf/quota-violations.ts';
import { type Owner, queueName } from '../../conf/quotas.ts';
import { withFinalValues } from '../../conf/resolve/final-values.ts';
import type { SiteConfig } from '../../conf/resolve/site.ts';
import { groupsOfUser } from '../../hadoop/configuration/login/user-groups.ts';
import { TonyError } from '../../platform/errors.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { withTensorBoard } from '../job/tensorboard-role.ts';

/** Returns the user, groups and queue that determine a job's quotas. Looks up groups only if the site file has quotas for groups. */
export async function ownerOf(
  job: Pick<Job, 'queue'>,
  cluster: Pick<HadoopCluster, 'configuration' | 'user'>,
  site: SiteConfig,
): Promise<Owner> {
  const { configuration, user } = cluster;
  const groups = Object.keys(site.quotas.groups).length === 0 ? [] : await groupsOfUser(configuration, user, user);
  return { user, groups, queue: queueName(job.queue) };
}

/**
 * Rejects a job whose settings differ from the final values in the site file.
 * @throws TonyError FINAL_VALUES_MISMATCH, which lists every difference
 */
export function refuseNotFinal(job: Job, site: SiteConfig): void {
  const { changed } = withFinalValues(job, site.final);
  if (changed.length === 0) {
    return;
  }
  const values = changed.length === 1 ? 'a final value' : `${changed.length} final values`;
  const lines = changed.map(({ path, was, is }) => `  ${path.join('.')}: ${is} (the job: ${was ?? 'no value'})`);
  throw new TonyError('FINAL_VALUES_MISMATCH', [`The job lacks ${values} of ${site.from ?? 'the site file'}:`, ...lines].join('\n'));
}

/**
 * Rejects a job that exceeds limits even if no other job is running.
 * @throws TonyError QUOTA_EXCEEDED, which lists every exceeded limit
 */
export function refuseBeyondQuotas(job: Job, owner: Owner, site: SiteConfig): void {
  const violations = violationsOfWhole(job, owner, site);
  if (violations.length > 0) {
    throw new TonyError('QUOTA_EXCEEDED', describeViolations(violations, site.from));
  }
}

/** Returns the limits that the job exceeds. Like the ApplicationMaster, counts the TensorBoard role that tony-ts adds. */
export function violationsOfWhole(job: Job, owner: Owner, site: Pick<SiteConfig, 'quotas'>): Violation[] {
  return violationsOf(withTensorBoard(job), owner, site.quotas);
}

export function describeViolations(violations: readonly Violation[], from: string | null): string {
  const heading = violations.length === 1 ? 'The job exceeds a limit' : `The job exceeds ${violations.length} limits`;
  const lines = violations.map(({ path, message, fits }) => `  ${path}: ${message}\n    fits: ${fits}`);
  return [`${heading}${from === null ? '' : ` set in ${from}`}:`, ...lines].join('\n');
}
