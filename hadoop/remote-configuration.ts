import { messageOf, TonyError } from '../conf/errors.ts';
import { HadoopConfiguration } from './configuration.ts';
import { parseHadoopXml, type XmlProperty } from './hadoop-xml.ts';
import { HttpClient } from './http-client.ts';

const TIMEOUT_MS = 10_000;
const MAXIMUM_BYTES = 16 * 1024 * 1024;

/**
 * The configuration of a cluster from the web address of its ResourceManager alone: `http://rm:8088/conf`, as XML, which all versions
 * speak. What comes from Hadoop's own *-default.xml is left out: `HadoopConfiguration` has the defaults that are used, and a ResourceManager's
 * differ from a client's.
 */
export async function configurationOfResourceManager(address: string): Promise<HadoopConfiguration> {
  const base = baseUrl(address);
  const all = await propertiesOfDaemon(base).catch((error: unknown) => {
    if (error instanceof TonyError) throw error;
    throw new TonyError('RM_UNREACHABLE', `No ResourceManager could be reached at ${base.origin}: ${messageOf(error)}`, { cause: error });
  });
  return HadoopConfiguration.fromProperties(reachedAt(base, withoutDefaults(all)));
}

/** What does not come from Hadoop's own *-default.xml. */
export function withoutDefaults(properties: readonly XmlProperty[]): Record<string, string> {
  const set = properties.filter(({ source }) => source === null || !source.endsWith('-default.xml'));
  return Object.fromEntries(set.map(({ name, value }) => [name, value]));
}

/** What a daemon of the cluster goes by, its defaults included, from its web server; throws when that says nothing. */
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
    if (answer.status !== 200) throw new Error(`${url} answered HTTP ${answer.status}, which no daemon of Hadoop does.`);
    return parseHadoopXml(answer.body.toString('utf8'), url.href);
  } finally {
    http.close();
  }
}

/** A ResourceManager on one host may call itself 0.0.0.0; the caller knows better. */
function reachedAt(base: URL, properties: Readonly<Record<string, string>>): Record<string, string> {
  const isHttps = base.protocol === 'https:';
  const known: Record<string, string> = { ...properties };
  if (known['yarn.resourcemanager.ha.enabled'] === 'true') return known;
  const hostname = known['yarn.resourcemanager.hostname'];
  if (hostname === undefined || hostname === '0.0.0.0') known['yarn.resourcemanager.hostname'] = base.hostname;
  known['yarn.http.policy'] = isHttps ? 'HTTPS_ONLY' : 'HTTP_ONLY';
  known[isHttps ? 'yarn.resourcemanager.webapp.https.address' : 'yarn.resourcemanager.webapp.address'] = base.host;
  return known;
}

function baseUrl(address: string): URL {
  const text = /^https?:\/\//.test(address) ? address : `http://${address}`;
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || url.hostname === '') {
    throw new TonyError('USAGE', `"${address}" is not the address of a ResourceManager.`, {
      hint: 'Give its web address, e.g. http://rm:8088.',
    });
  }
  // Ports 80 and 443 are left out of `host`, where Hadoop's defaults would step in.
  if (url.port === '') return new URL(`${url.protocol}//${url.hostname}:${url.protocol === 'https:' ? 8090 : 8088}`);
  return url;
}
