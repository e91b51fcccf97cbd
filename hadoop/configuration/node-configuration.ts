import { withTimeout } from '../../platform/deadline.ts';
import { AUTHORITIES } from './authorities.ts';
import { HadoopConfiguration } from './configuration.ts';
import { propertiesOfDaemon, UnexpectedStatus, withoutDefaults } from './remote-configuration.ts';

/** The web server of a NodeManager, from NM_HOST and NM_HTTP_PORT in a container's environment. */
export interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

/** Properties that a NodeManager may lack, because it does not need them itself. */
const NAME_NODES = /^dfs\./;
const RESOURCE_MANAGERS = /^yarn\.resourcemanager\.(hostname|webapp|ha)\b/;

/**
 * Returns the configuration of the NodeManager on this host, which no user of the cluster can change. It may lack the web addresses of the
 * NameNodes and ResourceManagers; these come from `otherwise`, restricted to the hosts that the node's configuration names.
 *
 * @param onRefused finds a configuration that is as trustworthy where the node demands a login for its own.
 * @returns null when the node's web server does not publish its configuration, or does not answer in time.
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
    if (isLoginDemanded(error)) {
      return onRefused();
    }
    return null;
  }
}

/**
 * The configuration of a daemon, completed by properties of `otherwise` that name no other hosts, and by its trusted authorities, which
 * daemons do not report.
 */
export function completed(own: Properties, otherwise: Properties): HadoopConfiguration {
  const { [AUTHORITIES]: authorities = '' } = otherwise;
  const missing = { ...missingNameNodes(own, otherwise), ...missingResourceManagers(own, otherwise) };
  return HadoopConfiguration.fromProperties({ ...missing, ...own, ...(authorities === '' ? {} : { [AUTHORITIES]: authorities }) });
}

function isLoginDemanded(error: unknown): boolean {
  return error instanceof UnexpectedStatus && (error.status === 401 || error.status === 403);
}

type Properties = Readonly<Record<string, string>>;

/**
 * Returns the NameNode properties that the node lacks. If the node names a NameNode by host and port, the result contains only the address
 * of the web server on that host. If it names a nameservice, no other property names the hosts, so the result contains all NameNode
 * properties of `otherwise`.
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
 * Returns the ResourceManager properties that the node lacks. If the node sets only the address where it registers, the ResourceManager
 * runs on that host.
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

/** Returns an empty list for invalid settings, so that an error in `otherwise` does not discard the node's own configuration. */
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

/** Tries HTTP, then HTTPS: only a configuration names the protocol, and the only configuration at hand may come from any user. */
async function ownProperties(authority: string, timeoutMs: number): Promise<Record<string, string>> {
  const all = await propertiesOfDaemon(new URL(`http://${authority}`), { timeoutMs }).catch((error: unknown) => {
    if (isLoginDemanded(error)) {
      throw error;
    }
    return propertiesOfDaemon(new URL(`https://${authority}`), { timeoutMs, anyCertificate: true });
  });
  // A NodeManager's defaults differ from an ApplicationMaster's. `HadoopConfiguration` supplies the defaults.
  return withoutDefaults(all);
}
