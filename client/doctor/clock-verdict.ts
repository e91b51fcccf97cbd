import { formatDuration } from '../../conf/values/units.ts';
import { trustOf } from '../../hadoop/configuration/authorities.ts';
import { type HttpAnswer, HttpClient } from '../../hadoop/http/http-client.ts';
import { type Login, sendAs } from '../../hadoop/security/login.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { type CheckResult, doubtful, good } from './diagnosis.ts';

/**
 * Clock skew (ms) above which the check fails. Larger skews make timestamps in logs misleading. Jobs run even with larger skews, because
 * each executor measures its lease with its own clock.
 */
const SKEW_MS = 5_000;
const CLOCK_TIMEOUT_MS = 5_000;
const CLOCK_BYTES = 64 * 1024;

export async function clockVerdict({ configuration, login }: HadoopCluster): Promise<CheckResult> {
  const http = new HttpClient({ trust: trustOf(configuration) });
  const skews = await Promise.all(configuration.resourceManagers.map((address) => skewOf(address, login, http)));
  http.close();
  const [worst] = skews.filter((skew) => skew !== null).sort((a, b) => Math.abs(b.ms) - Math.abs(a.ms));
  if (worst === undefined) {
    return doubtful('the ResourceManager does not report its time', "Compare the nodes' clocks with this machine's clock.");
  }
  const text = `the clock of ${worst.address} is ${formatDuration(Math.abs(worst.ms))} ${worst.ms < 0 ? 'behind' : 'ahead'}`;
  return Math.abs(worst.ms) > SKEW_MS
    ? doubtful(text, 'Run a time service (chrony, ntpd) on all machines. Otherwise, times in logs and histories are wrong.')
    : good(`all clocks agree within ${formatDuration(SKEW_MS)}`);
}

/**
 * Estimates a ResourceManager's clock skew (ms) from the `Date` header of a response, which has a resolution of one second. Returns null if
 * the request fails or the response has no such header.
 */
async function skewOf(address: string, login: Login, http: HttpClient): Promise<{ readonly address: string; readonly ms: number } | null> {
  try {
    let before = 0;
    const ask = (url: URL, headers: Readonly<Record<string, string>>): Promise<HttpAnswer> => {
      before = Date.now();
      return http.fetch({ method: 'GET', url, headers, idleTimeoutMs: CLOCK_TIMEOUT_MS }, { maximumBytes: CLOCK_BYTES });
    };
    const response = await sendAs(login, new URL(`${address}/ws/v1/cluster/info`), ask, ({ status }) => status);
    // Hadoop sends the header twice. Use the first one.
    const said = Date.parse(/^[^,]*,[^,]*/.exec(response.headers.date ?? '')?.[0] ?? '');
    const here = (before + Date.now()) / 2;
    return Number.isNaN(said) ? null : { address, ms: Math.round(said + 500 - here) };
  } catch {
    return null;
  }
}
