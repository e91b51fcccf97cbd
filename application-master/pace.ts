import type { Job } from '../conf/job.ts';

/** How many heartbeats a second one ApplicationMaster is to take at most. */
const BEATS_PER_SECOND = 500;
const LEAST_LEASE_MS = 120_000;

export function taskCount(job: Job): number {
  return job.roles.reduce((sum, role) => sum + role.maxInstances, 0);
}

/** What executors are told: what the job says, longer for so many executors that their beats alone would be work. */
export function heartbeatIntervalMs(job: Job): number {
  return Math.max(job.heartbeat.intervalMs, Math.ceil((taskCount(job) * 1000) / BEATS_PER_SECOND));
}

/** An executor unheard for so long is lost. */
export function silenceMs(job: Job): number {
  return heartbeatIntervalMs(job) * job.heartbeat.missed;
}

/**
 * An executor without its master for so long ends everything. Long enough for a second attempt of the ApplicationMaster to start and be
 * found; also the longest that a program can outlive the master's belief that it is gone.
 */
export function leaseMs(job: Job): number {
  return Math.max(LEAST_LEASE_MS, silenceMs(job) * 3);
}

/**
 * How long after a failure others in the same generation may die of it, and how long one that lost a peer waits for that peer's own
 * failure to show: a silent peer shows itself after `silenceMs`.
 */
export function graceMs(job: Job): number {
  return silenceMs(job) + heartbeatIntervalMs(job);
}

/** How long a second attempt waits for executors of the first to come back: they look for it with a growing pause. */
export function reattachMs(job: Job): number {
  return Math.min(leaseMs(job), Math.max(60_000, silenceMs(job) * 2));
}

/** How long an executor may take to answer Prepare or Start while its heartbeats come. */
export function answerMs(job: Job): number {
  return Math.max(30_000, silenceMs(job));
}
