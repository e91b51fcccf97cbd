import { TonyError } from '../conf/errors.ts';
import { withFinalValues } from '../conf/final-values.ts';
import type { Job } from '../conf/job.ts';
import { type Owner, queueName, type Violation, violationsOf } from '../conf/quotas.ts';
import type { Site } from '../conf/site.ts';
import { groupsOfUser } from '../hadoop/user-groups.ts';
import type { Cluster } from './cluster.ts';
import { withTensorBoard } from './tensorboard-role.ts';

/** Whose job it would be on this cluster. Groups are only asked for where the site file names any. */
export async function ownerOf(job: Pick<Job, 'queue'>, cluster: Pick<Cluster, 'configuration' | 'user'>, site: Site): Promise<Owner> {
  const { configuration, user } = cluster;
  const groups = Object.keys(site.quotas.groups).length === 0 ? [] : await groupsOfUser(configuration, user, user);
  return { user, groups, queue: queueName(job.queue) };
}

/**
 * Refuses a job that was loaded without the site's final values: nothing of what its user says shall be changed without a word.
 *
 * @throws TonyError FINAL_VALUES with every value that is another
 */
export function refuseNotFinal(job: Job, site: Site): void {
  const { changed } = withFinalValues(job, site.final);
  if (changed.length === 0) return;
  const values = changed.length === 1 ? 'a final value' : `${changed.length} final values`;
  const lines = changed.map(({ path, was, is }) => `  ${path.join('.')}: ${is} (the job: ${was ?? 'nothing'})`);
  throw new TonyError('FINAL_VALUES', [`The job does not have ${values} of ${site.from ?? 'the site file'}:`, ...lines].join('\n'));
}

/**
 * Refuses a job that asks for more than the admin of the cluster allows, whatever else runs.
 *
 * @throws TonyError QUOTA_EXCEEDED with every limit that it is beyond
 */
export function refuseBeyondQuotas(job: Job, owner: Owner, site: Site): void {
  const violations = violationsOfWhole(job, owner, site);
  if (violations.length > 0) throw new TonyError('QUOTA_EXCEEDED', describeViolations(violations, site.from));
}

/** As the ApplicationMaster counts: the TensorBoard that comes with the job is a task as any other. */
export function violationsOfWhole(job: Job, owner: Owner, site: Pick<Site, 'quotas'>): Violation[] {
  return violationsOf(withTensorBoard(job), owner, site.quotas);
}

export function describeViolations(violations: readonly Violation[], from: string | null): string {
  const heading = violations.length === 1 ? 'The job is beyond a limit' : `The job is beyond ${violations.length} limits`;
  const lines = violations.map(({ path, message, fits }) => `  ${path}: ${message}\n    fits: ${fits}`);
  return [`${heading}${from === null ? '' : ` set in ${from}`}:`, ...lines].join('\n');
}
