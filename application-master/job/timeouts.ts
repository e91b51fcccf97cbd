import type { Job } from '../../conf/job.ts';
import { LEAST_LEASE_MS } from '../../conf/values/lease.ts';
import { LINK_LOSS_MS } from '../../protos/pinned-channel.ts';

/** Upper bound for heartbeats per second that one ApplicationMaster processes. */
const BEATS_PER_SECOND = 500;
/** Upper bound for the time from the end of an executor's lease until the executor has killed its program. */
const END_MS = 10_000;

/**
 * The heartbeat interval sent to executors: the value from job.yaml, or longer if heartbeats of this many executors would exceed
 * `BEATS_PER_SECOND`.
 */
export function heartbeatIntervalMs(job: Job): number {
  const tasks = job.roles.reduce((sum, role) => sum + role.maxInstances, 0);
  return Math.max(job.heartbeat.intervalMs, Math.ceil((tasks * 1000) / BEATS_PER_SECOND));
}

/** An executor that is silent for this long counts as lost. */
export function silenceMs(job: Job): number {
  return heartbeatIntervalMs(job) * job.heartbeat.missed;
}

/**
 * The lease: an executor without a connection to an ApplicationMaster for this long stops its program and exits. Within the lease, a later
 * attempt can start and the executors can find it.
 */
export function leaseMs(job: Job): number {
  return Math.max(LEAST_LEASE_MS, silenceMs(job) * 3);
}

/**
 * How long a program may keep running after its executor's last message. The lease begins when the executor notices that its stream is
 * broken.
 */
export function outlivesMs(job: Job): number {
  return leaseMs(job) + LINK_LOSS_MS + END_MS;
}

/**
 * Within this time after a failure, failures of other members count as its consequences. After a member reports a lost peer, the job also
 * waits this long for the failure of that peer, because a silent peer is detected only after `silenceMs`.
 */
export function graceMs(job: Job): number {
  return silenceMs(job) + heartbeatIntervalMs(job);
}

/** How long a later attempt waits for executors to reattach. Executors retry with an increasing pause. */
export function reattachMs(job: Job): number {
  return Math.min(leaseMs(job), Math.max(60_000, silenceMs(job) * 2));
}

/** How long an executor may take to answer Prepare or Start while its heartbeats arrive. */
export function answerMs(job: Job): number {
  return Math.max(30_000, silenceMs(job));
}
