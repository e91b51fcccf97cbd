import { messageOf, TonyError } from '../../platform/errors.ts';
import { HttpClient } from '../http/http-client.ts';
import { HadoopConfiguration } from './configuration.ts';
import { parseHadoopXml, type XmlProperty } from './hadoop-xml.ts';

const TIMEOUT_MS = 10_000;
const MAXIMUM_BYTES = 16 * 1024 * 1024;

/**
 * Reads the configuration of a cluster from the web address of its ResourceManager: `http://rm:8088/conf`, as XML, which all versions
 * support. Values from Hadoop's own *-default.xml are omitted: `HadoopConfiguration` supplies the defaults, and a ResourceManager's differ
 * from a client's.
 */
export async function configurationOfResourceManager(address: string): Promise<HadoopConfiguration> {
  const base = baseUrl(address);
  const all = await propertiesOfDaemon(base).catch((error: unknown) => {
    if (error instanceof TonyError) {
      throw error;
    }
    throw new TonyError('RM_UNREACHABLE', `No ResourceManager could be reached at ${base.origin}: ${messageOf(error)}`, { cause: error });
  });
  return HadoopConfiguration.fromProperties(reachedAt(base, withoutDefaults(all)));
}

/** Omits the properties from Hadoop's own *-default.xml. */
export function withoutDefaults(properties: readonly XmlProperty[]): Record<string, string> {
  const set = properties.filter(({ source }) => source === null || !source.endsWith('-default.xml'));
  return Object.fromEntries(set.map(({ name, value }) => [name, value]));
}

/**
 * Reads the effective configuration of a daemon, including defaults, from its web server; throws when the web server does not return it.
 */
export async function propertiesOfDaemon(
  base: URL,
  { timeoutMs = TIMEOUT_MS, anyCertificate = false }: { readonly timeoutMs?: number; readonly anyCertificate?: boolean } = {},
): Promise<XmlProperty[]> {
  const http = new HttpClient({ anyCertificate });
  try {
    const url = new URL('/conf', base);
    const answer = await http.fetch(
      { method: 'GET', url, headers: { Accept: 'application/xml' }, idleTimeoutMs: timeoutMs },
      { maximumBytes: MAXIMUM_BYTES },
    );
    if (answer.status !== 200) {
      throw new Error(`${url} returned HTTP ${answer.status}, so its server is not a Hadoop daemon.`);
    }
    return parseHadoopXml(answer.body.toString('utf8'), url.href);
  } finally {
    http.close();
  }
}

/** A ResourceManager on a single host may report 0.0.0.0. The host of `base`, through which it was reached, replaces this value. */
function reachedAt(base: URL, properties: Readonly<Record<string, string>>): Record<string, string> {
  const isHttps = base.protocol === 'https:';
  const known: Record<string, string> = { ...properties };
  if (known['yarn.resourcemanager.ha.enabled'] === 'true') {
    return known;
  }
  const hostname = known['yarn.resourcemanager.hostname'];
  if (hostname === undefined || hostname === '0.0.0.0') {
    known['yarn.resourcemanager.hostname'] = base.hostname;
  }
  known['yarn.http.policy'] = isHttps ? 'HTTPS_ONLY' : 'HTTP_ONLY';
  known[isHttps ? 'yarn.resourcemanager.webapp.https.address' : 'yarn.resourcemanager.webapp.address'] = base.host;
  return known;
}

function baseUrl(address: string): URL {
  const text = /^https?:\/\//.test(address) ? address : `http://${address}`;
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || url.hostname === '') {
    throw new TonyError('USAGE', `"${address}" is not the address of a ResourceManager.`, {
      hint: 'Use the web address of a ResourceManager, e.g. http://rm:8088.',
    });
  }
  // An absent port means Hadoop's default port. URL also omits port 80 of http and port 443 of https.
  if (url.port === '') {
    return new URL(`${url.protocol}//${url.hostname}:${url.protocol === 'https:' ? 8090 : 8088}`);
  }
  return url;
}
