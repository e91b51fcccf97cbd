import type { FrozenJob, Job } from '../../../conf/job.ts';
import { LEAST_LEASE_MS, MOST_LEASE_MS } from '../../../conf/values/lease.ts';
import { LINK_LOSS_MS } from '../../../protos/pinned-channel.ts';
import { inGang, isIndependentlyReplaceable } from './membership.ts';

/** Maximum number of heartbeats per second that one ApplicationMaster processes. */
const BEATS_PER_SECOND = 500;
/** Maximum time in ms that an executor needs to kill its program after the end of its lease. */
const END_MS = 10_000;

/**
 * Returns the heartbeat interval in ms for executors. It is the value in job.yaml, or a longer interval if this number of executors would
 * exceed `BEATS_PER_SECOND`.
 */
export function heartbeatIntervalMs(job: Job): number {
  const tasks = job.roles.reduce((sum, role) => sum + role.maxInstances, 0);
  return Math.max(job.heartbeat.intervalMs, Math.ceil((tasks * 1000) / BEATS_PER_SECOND));
}

/** Returns the duration of silence in ms after which an executor is considered lost. */
export function silenceMs(job: Job): number {
  return heartbeatIntervalMs(job) * job.heartbeat.missed;
}

/**
 * Returns the lease duration in ms for a role's executors. An executor that has had no connection to an ApplicationMaster for this long
 * stops its program and exits. During the lease, a later attempt can start and executors can find it.
 *
 * Generations fence the gang's tasks, so no successor waits for their programs to exit. Their lease covers the time that YARN needs to
 * replace a lost ApplicationMaster. All other tasks have the shortest lease, because their successors start only after its end.
 */
export function leaseMs({ job, cluster }: Pick<FrozenJob, 'job' | 'cluster'>, roleName: string): number {
  const role = job.roles.find(({ name }) => name === roleName);
  const isFenced = role !== undefined && inGang({ role }) && !isIndependentlyReplaceable(job, role);
  const replacementMs = cluster.kind === 'yarn' ? (cluster.masterReplacementMs ?? 0) : 0;
  return Math.max(leastLeaseMs(job), isFenced ? Math.min(MOST_LEASE_MS, replacementMs) : 0);
}

function leastLeaseMs(job: Job): number {
  return Math.max(LEAST_LEASE_MS, silenceMs(job) * 3);
}

/**
 * Returns how long in ms a program may keep running after its executor's last message. The lease starts when the executor detects the
 * broken stream.
 */
export function outlivesMs(frozen: Pick<FrozenJob, 'job' | 'cluster'>, roleName: string): number {
  return leaseMs(frozen, roleName) + LINK_LOSS_MS + END_MS;
}

/**
 * Returns the period in ms after a failure in which failures of other members are considered consequences. After a lost-peer report, the
 * job also waits this long for the failure of that peer, because a silent peer is detected only after `silenceMs`.
 */
export function graceMs(job: Job): number {
  return silenceMs(job) + heartbeatIntervalMs(job);
}

/** Returns how long in ms a later attempt waits for executors to reattach. Executors retry with increasing pauses. */
export function reattachMs(job: Job): number {
  return Math.min(leastLeaseMs(job), Math.max(60_000, silenceMs(job) * 2));
}

/** Returns the timeout in ms for an executor's response to Prepare or Start while its heartbeats arrive. */
export function answerMs(job: Job): number {
  return Math.max(30_000, silenceMs(job));
}
