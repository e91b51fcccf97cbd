import { LEAST_LEASE_MS } from '../../conf/values/lease.ts';
import { formatDuration } from '../../conf/values/units.ts';
import { doubtful, good, type Verdict } from './diagnosis.ts';

const MASTER_EXPIRY = 'yarn.am.liveness-monitor.expiry-interval-ms';
const NODE_EXPIRY = 'yarn.nm.liveness-monitor.expiry-interval-ms';
const DEFAULT_EXPIRY_MS = 600_000;
/** Estimated time until the next attempt has started and all executors have connected to it. */
const START_MS = 30_000;

/**
 * Checks whether YARN replaces a lost ApplicationMaster before the executors' leases expire. YARN starts the next attempt after an expiry
 * interval without heartbeats from the node or the ApplicationMaster. Because it checks three times per interval, it detects the loss after
 * at most 4/3 of the interval.
 */
export function masterLoss(settings: ReadonlyMap<string, string>): Verdict {
  const [master, node] = [MASTER_EXPIRY, NODE_EXPIRY].map((name) => Number(settings.get(name) ?? DEFAULT_EXPIRY_MS)) as [number, number];
  const noticedMs = Math.ceil((Math.min(master, node) * 4) / 3);
  const seconds = formatDuration(1000 * Math.ceil(noticedMs / 1000));
  const text = `the ResourceManager replaces an ApplicationMaster on a lost node within ${seconds}; programs continue without one for ${formatDuration(LEAST_LEASE_MS)}`;
  if (noticedMs + START_MS <= LEAST_LEASE_MS) {
    return good(text);
  }
  return doubtful(
    text,
    `Lower ${MASTER_EXPIRY} to ${LEAST_LEASE_MS / 2}. Otherwise, programs exit before a second ApplicationMaster starts, and training resumes from a checkpoint.`,
  );
}
