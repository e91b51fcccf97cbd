import type { FrozenJob, Job, Role } from '../../../conf/job.ts';
import { inGang } from '../../../conf/role-conditions.ts';
import { LEAST_LEASE_MS, MOST_LEASE_MS } from '../../../conf/values/lease.ts';
import { LINK_LOSS_MS } from '../../../protos/pinned-channel.ts';
import { LIMITS } from './job-state.ts';
import { isIndependentlyReplaceable } from './membership.ts';

/** Maximum number of heartbeats that an ApplicationMaster receives per second. */
const BEATS_PER_SECOND = 500;
/** Maximum time in ms that an executor needs to kill its program after the executor's lease has expired. */
const END_MS = 10_000;

/**
 * Returns the executors' heartbeat interval in ms. This is the value in job.yaml, or a longer interval if the job has so many executors
 * that they would exceed `BEATS_PER_SECOND`.
 */
export function heartbeatIntervalMs(job: Job): number {
  const tasks = job.roles.reduce((sum, role) => sum + role.maxInstances, 0);
  return Math.max(job.heartbeat.intervalMs, Math.ceil((tasks * 1000) / BEATS_PER_SECOND));
}

/** Returns how long an executor may go without sending heartbeats, in ms, before it counts as lost. */
export function silenceMs(job: Job): number {
  return heartbeatIntervalMs(job) * job.heartbeat.missed;
}

/**
 * Returns the lease that a role's executors have, in ms. If an executor has not been connected to an ApplicationMaster for this long, it
 * stops its program and exits.
 *
 * Gang tasks can have a lease that is as long as YARN needs to replace a lost ApplicationMaster, because generations protect the gang from
 * old programs. All other tasks have the shortest possible lease, because their replacements start only after it has expired.
 */
export function leaseMs({ job, cluster }: Pick<FrozenJob, 'job' | 'cluster'>, roleName: string): number {
  const role = job.roles.find(({ name }) => name === roleName);
  const isFenced = role !== undefined && inGang(role) && !isIndependentlyReplaceable(job, role);
  const replacementMs = cluster.kind === 'yarn' ? (cluster.masterReplacementMs ?? 0) : 0;
  return Math.max(leastLeaseMs(job), isFenced ? Math.min(MOST_LEASE_MS, replacementMs) : 0);
}

function leastLeaseMs(job: Job): number {
  return Math.max(LEAST_LEASE_MS, silenceMs(job) * 3);
}

/**
 * Returns how long a program may keep running after its executor's last message, in ms. This is more than the executor's lease, because the
 * lease begins only when the executor detects that its connection is broken.
 */
export function outlivesMs(frozen: Pick<FrozenJob, 'job' | 'cluster'>, roleName: string): number {
  return leaseMs(frozen, roleName) + LINK_LOSS_MS + END_MS;
}

/**
 * Returns how long after a failure, in ms, further failures count as consequences of it. The job also waits this long after a lost-peer
 * report, because a silent peer is detected only after `silenceMs`.
 */
export function incidentMs(job: Job): number {
  return silenceMs(job) + heartbeatIntervalMs(job);
}

/**
 * Returns how long a later attempt waits for executors to reattach, in ms. This allows for the increasing pauses between the executors'
 * retries.
 */
export function reattachMs(job: Job): number {
  return Math.min(leastLeaseMs(job), Math.max(60_000, silenceMs(job) * 2));
}

/**
 * Returns how long an executor that sends heartbeats may take to respond to Prepare or Start, in ms. Before it responds to Prepare, its
 * earlier program ends, and stores its last checkpoint.
 */
export function answerMs(job: Job, { gracePeriodMs }: Pick<Role, 'gracePeriodMs'>): number {
  return Math.max(27_000, silenceMs(job)) + gracePeriodMs;
}

/**
 * Returns how long after the decision, in ms, a job ends at the latest if the cluster responds: the result is saved, and programs have their
 * grace periods.
 */
export function endMs({ roles }: Pick<Job, 'roles'>): number {
  return LIMITS.saveMs + LIMITS.drainMs + Math.max(...roles.map(({ gracePeriodMs }) => gracePeriodMs));
}
