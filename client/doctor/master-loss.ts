import { LEAST_LEASE_MS, MASTER_EXPIRY, MOST_LEASE_MS, masterLossMs, masterReplacementMs } from '../../conf/values/lease.ts';
import { formatDuration } from '../../conf/values/units.ts';
import { type CheckResult, doubtful, good } from './diagnosis.ts';

/**
 * Reports how long a job runs without an ApplicationMaster when the ApplicationMaster's node is lost, and whether the executors' leases
 * outlast this time. Executors of ranked tasks derive their leases from YARN's expiry intervals, up to a maximum.
 */
export function masterLoss(settings: ReadonlyMap<string, string>): CheckResult {
  const lease = (ms: number): string => formatDuration(1000 * Math.ceil(ms / 1000));
  const replacementMs = masterReplacementMs(settings);
  const leaseMs = Math.min(MOST_LEASE_MS, Math.max(LEAST_LEASE_MS, replacementMs));
  const leases =
    leaseMs === LEAST_LEASE_MS
      ? `programs continue without one for ${lease(leaseMs)}`
      : `ranked programs continue without one for ${lease(leaseMs)}, all others for ${lease(LEAST_LEASE_MS)}`;
  const text = `the ResourceManager replaces an ApplicationMaster on a lost node within ${lease(masterLossMs(settings))}; ${leases}`;
  return replacementMs <= MOST_LEASE_MS
    ? good(text)
    : doubtful(
        text,
        `Lower ${MASTER_EXPIRY} to at most 600000. Otherwise, programs exit before a second ApplicationMaster starts, and training resumes from a checkpoint.`,
      );
}
