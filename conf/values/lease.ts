/** Minimum lease in ms: how long an executor keeps its program running without contact to an ApplicationMaster. */
export const LEAST_LEASE_MS = 120_000;
/** Maximum lease in ms of a program whose replacement may start before the program has exited. */
export const MOST_LEASE_MS = 1_800_000;

export const MASTER_EXPIRY = 'yarn.am.liveness-monitor.expiry-interval-ms';
const NODE_EXPIRY = 'yarn.nm.liveness-monitor.expiry-interval-ms';
const DEFAULT_EXPIRY_MS = 600_000;
/** Estimated time in ms for the next attempt to start and for all executors to connect to it. */
const START_MS = 30_000;

/**
 * Returns the maximum time in ms for YARN to detect that an ApplicationMaster's node is lost. YARN starts the next attempt after an expiry
 * interval without heartbeats from the node or the ApplicationMaster. Because it checks three times per interval, it detects the loss after
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
