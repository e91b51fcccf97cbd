/** Minimum lease in ms. The lease is how long an executor keeps its program running without contact with an ApplicationMaster. */
export const LEAST_LEASE_MS = 120_000;
/** Maximum grace period in ms. It exceeds the minimum lease, so the end of a lease also ends a grace period. */
export const MOST_GRACE_MS = 300_000;
/** Maximum lease in ms if a replacement may start before the lost program has ended. */
export const MOST_LEASE_MS = 1_800_000;

export const MASTER_EXPIRY = 'yarn.am.liveness-monitor.expiry-interval-ms';
const NODE_EXPIRY = 'yarn.nm.liveness-monitor.expiry-interval-ms';
const DEFAULT_EXPIRY_MS = 600_000;
/** Estimated time in ms until the replacement attempt has started and all executors are connected to it. */
const START_MS = 30_000;

/**
 * Returns the maximum time in ms that YARN takes to detect that an ApplicationMaster's node is lost. YARN considers the ApplicationMaster
 * lost if neither it nor its node sends a heartbeat within an expiry interval. YARN checks three times per interval, so the detection takes
 * at most 4/3 of the interval.
 * @param settings the ResourceManager's configuration
 */
export function masterLossMs(settings: ReadonlyMap<string, string>): number {
  const [master, node] = [MASTER_EXPIRY, NODE_EXPIRY].map((name) => Number(settings.get(name) ?? DEFAULT_EXPIRY_MS)) as [number, number];
  return Math.ceil((Math.min(master, node) * 4) / 3);
}

/** Returns the maximum time in ms for all executors to connect to the attempt that replaces a lost ApplicationMaster. */
export function masterReplacementMs(settings: ReadonlyMap<string, string>): number {
  return masterLossMs(settings) + START_MS;
}
