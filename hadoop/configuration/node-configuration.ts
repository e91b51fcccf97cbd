import { withTimeout } from '../../platform/deadline.ts';
import { AUTHORITIES } from './authorities.ts';
import { HadoopConfiguration } from './configuration.ts';
import { propertiesOfDaemon, UnexpectedStatus, withoutDefaults } from './remote-configuration.ts';

/** The web server of a NodeManager, from NM_HOST and NM_HTTP_PORT in a container's environment. */
export interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

/** Properties that the configuration of a NodeManager may lack, because the NodeManager does not use them. */
const NAME_NODES = /^dfs\./;
const RESOURCE_MANAGERS = /^yarn\.resourcemanager\.(hostname|webapp|ha)\b/;

/**
 * Reads the configuration of the NodeManager on this host, which users of the cluster cannot change. If it lacks the web addresses of the
 * NameNodes or ResourceManagers, `otherwise` supplies them, restricted to the hosts that the node's configuration names.
 *
 * @param onRefused called if the node requires a login; returns an equally trustworthy configuration.
 * @returns null if the node's web server does not publish its configuration, or does not respond in time.
 * @throws what `onRefused` throws.
 */
export async function configurationOfNode(
  { host, port }: NodeAddress,
  otherwise: Readonly<Record<string, string>>,
  timeoutMs: number,
  onRefused: () => Promise<HadoopConfiguration>,
): Promise<HadoopConfiguration | null> {
  try {
    const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`;
    const own = await withTimeout(ownProperties(authority, timeoutMs), timeoutMs, () => null);
    return own?.['fs.defaultFS'] === undefined ? null : completed(own, otherwise);
  } catch (error) {
    if (isLoginRequired(error)) {
      return onRefused();
    }
    return null;
  }
}

/**
 * Creates the configuration of a daemon. `otherwise` supplies missing addresses, restricted to hosts that `own` names, and the trusted
 * authorities, which daemons do not report.
 */
export function completed(own: Properties, otherwise: Properties): HadoopConfiguration {
  const { [AUTHORITIES]: authorities = '' } = otherwise;
  const missing = { ...missingNameNodes(own, otherwise), ...missingResourceManagers(own, otherwise) };
  return HadoopConfiguration.fromProperties({ ...missing, ...own, ...(authorities === '' ? {} : { [AUTHORITIES]: authorities }) });
}

function isLoginRequired(error: unknown): boolean {
  return error instanceof UnexpectedStatus && (error.status === 401 || error.status === 403);
}

type Properties = Readonly<Record<string, string>>;

/**
 * Returns the NameNode properties that `own` lacks. If its fs.defaultFS names a host and port, the result contains only the address of the
 * web server on that host. If its fs.defaultFS names a nameservice, only `otherwise` knows the hosts, so the result contains all of its
 * NameNode properties.
 */
function missingNameNodes(own: Properties, otherwise: Properties): Properties {
  if (setsAny(own, NAME_NODES)) {
    return {};
  }
  const supplied = partOf(otherwise, NAME_NODES);
  const { defaultFs } = HadoopConfiguration.fromProperties(own);
  const authority = defaultFs.slice('hdfs://'.length);
  if (!defaultFs.startsWith('hdfs://') || !/:\d+$/.test(authority)) {
    return supplied;
  }
  const [url = ''] = addressesOf(() => HadoopConfiguration.fromProperties({ ...supplied, 'fs.defaultFS': defaultFs }).nameNodes(authority));
  const [scheme, address = ''] = url.split('://');
  if (!isSameHost(address, authority)) {
    return {};
  }
  return scheme === 'https'
    ? { 'dfs.http.policy': 'HTTPS_ONLY', 'dfs.namenode.https-address': address }
    : { 'dfs.namenode.http-address': address };
}

/**
 * Returns the ResourceManager properties that `own` lacks. If it sets only the address at which the node registers, the result is
 * restricted to that host.
 */
function missingResourceManagers(own: Properties, otherwise: Properties): Properties {
  if (setsAny(own, RESOURCE_MANAGERS)) {
    return {};
  }
  const supplied = partOf(otherwise, RESOURCE_MANAGERS);
  const registersAt = HadoopConfiguration.fromProperties(own).get('yarn.resourcemanager.resource-tracker.address');
  if (registersAt === undefined) {
    return supplied;
  }
  const onThatHost = Object.entries(supplied).filter(
    ([key, value]) => /\.webapp\.(https\.)?address$/.test(key) && isSameHost(value, registersAt),
  );
  return { ...Object.fromEntries(onThatHost), 'yarn.resourcemanager.hostname': hostOf(registersAt) };
}

/** Returns an empty list for invalid settings: an error in `otherwise` must not discard the node's configuration. */
function addressesOf(find: () => readonly string[]): readonly string[] {
  try {
    return find();
  } catch {
    return [];
  }
}

function setsAny(properties: Properties, part: RegExp): boolean {
  return Object.keys(properties).some((key) => part.test(key));
}

function partOf(properties: Properties, part: RegExp): Properties {
  return Object.fromEntries(Object.entries(properties).filter(([key]) => part.test(key)));
}

function isSameHost(one: string, other: string): boolean {
  return hostOf(one).toLowerCase() === hostOf(other).toLowerCase();
}

/** Returns the host of `host:port`, or the host itself. */
function hostOf(address: string): string {
  return address.replace(/:\d+$/, '');
}

/** Tries HTTP, then HTTPS. A trustworthy configuration that names the protocol is not available yet. */
async function ownProperties(authority: string, timeoutMs: number): Promise<Record<string, string>> {
  const all = await propertiesOfDaemon(new URL(`http://${authority}`), { timeoutMs }).catch((error: unknown) => {
    if (isLoginRequired(error)) {
      throw error;
    }
    return propertiesOfDaemon(new URL(`https://${authority}`), { timeoutMs, anyCertificate: true });
  });
  // The defaults of a NodeManager may belong to another Hadoop version. `HadoopConfiguration` supplies the defaults.
  return withoutDefaults(all);
}
