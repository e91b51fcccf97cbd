import * as z from 'zod';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import { HttpClient } from '../../http/http-client.ts';
import { type Login, SimpleLogin, sendAs } from '../../security/login.ts';
import { TicketOnDemand } from '../../security/ticket-login.ts';
import { DEFAULT_TRUST, type ServerTrust } from '../../tls/server-trust.ts';
import { HadoopConfiguration } from '../configuration.ts';
import { parseHadoopXml, type XmlProperty } from '../hadoop-xml.ts';
import { webAddress } from './web-address.ts';

const TIMEOUT_MS = 10_000;
const MAXIMUM_BYTES = 16 * 1024 * 1024;
const ANONYMOUS = new SimpleLogin(null);

/** A daemon's configuration in the JSON format that org.apache.hadoop.conf.Configuration.dumpConfiguration writes. */
const REPORTED = z.object({
  properties: z.array(z.object({ key: z.string(), value: z.string().nullish(), isFinal: z.boolean(), resource: z.string().nullish() })),
});

/**
 * Reads a cluster's configuration from its ResourceManager's web server (`http://rm:8088/conf`). The result omits the ResourceManager's
 * default values, because `HadoopConfiguration` has its own.
 */
export async function configurationOfResourceManager(
  address: string,
  environment: NodeJS.ProcessEnv = process.env,
  trust: ServerTrust = DEFAULT_TRUST,
): Promise<HadoopConfiguration> {
  const base = webAddress(address);
  const all = await propertiesOfDaemon(base, { login: new TicketOnDemand(base, environment, trust), trust }).catch((error: unknown) => {
    if (error instanceof TonyError) {
      throw error;
    }
    throw new TonyError('RM_UNREACHABLE', `No ResourceManager could be reached at ${base.origin}: ${messageOf(error)}`, { cause: error });
  });
  return HadoopConfiguration.fromProperties(reachedAt(base, withoutDefaults(all)));
}

/** Thrown if a web server responds with a status other than 200. */
export class UnexpectedStatus extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Removes the properties that come from Hadoop's *-default.xml files. */
export function withoutDefaults(properties: readonly XmlProperty[]): Record<string, string> {
  const set = properties.filter(({ source }) => source === null || !source.endsWith('-default.xml'));
  return Object.fromEntries(set.map(({ name, value }) => [name, value]));
}

/**
 * Reads a daemon's effective configuration, including default values, from its web server. Throws if the request fails. Prefers JSON,
 * because XML is slow: for a daemon's roughly 1,500 properties, writing the response and parsing it each take about 35 ms.
 */
export async function propertiesOfDaemon(
  base: URL,
  {
    timeoutMs = TIMEOUT_MS,
    anyCertificate = false,
    login = ANONYMOUS,
    trust = DEFAULT_TRUST,
  }: { readonly timeoutMs?: number; readonly anyCertificate?: boolean; readonly login?: Login; readonly trust?: ServerTrust } = {},
): Promise<XmlProperty[]> {
  const http = new HttpClient({ anyCertificate, trust });
  try {
    const url = new URL('/conf', base);
    const answer = await sendAs(
      login,
      url,
      (at, headers) =>
        http.fetch(
          { method: 'GET', url: at, headers: { Accept: 'application/json, application/xml', ...headers }, idleTimeoutMs: timeoutMs },
          { maximumBytes: MAXIMUM_BYTES },
        ),
      ({ status }) => status,
    );
    if (answer.status !== 200) {
      const meaning = answer.status === 401 ? 'so it requires a Kerberos ticket' : 'so its server is not a Hadoop daemon';
      throw new UnexpectedStatus(answer.status, `${url} returned HTTP ${answer.status}, ${meaning}.`);
    }
    const text = answer.body.toString('utf8');
    return answer.headers['content-type']?.startsWith('application/json') ? parseReported(text, url.href) : parseHadoopXml(text, url.href);
  } finally {
    http.close();
  }
}

/** Like Hadoop, ignores a property without a value. */
function parseReported(text: string, url: string): XmlProperty[] {
  let reported: unknown;
  try {
    reported = JSON.parse(text);
  } catch (error) {
    throw new TonyError('HADOOP_CONF_INVALID', `${url}: ${messageOf(error)}`, { cause: error });
  }
  const checked = REPORTED.safeParse(reported);
  if (!checked.success) {
    throw new TonyError('HADOOP_CONF_INVALID', `${url}: ${z.prettifyError(checked.error)}`);
  }
  return checked.data.properties.flatMap(({ key, value, isFinal, resource }) =>
    typeof value === 'string' ? [{ name: key, value: value.trim(), final: isFinal, source: resource ?? null }] : [],
  );
}

/**
 * Fills in the ResourceManager's host and web address from `base`, because a ResourceManager may report 0.0.0.0. With HA, returns the
 * properties unchanged.
 */
export function reachedAt(base: URL, properties: Readonly<Record<string, string>>): Record<string, string> {
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
