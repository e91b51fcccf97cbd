import { withTimeout } from '../../platform/deadline.ts';
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

/** The configuration of a daemon, completed by properties of `otherwise` that name no other hosts. */
export function completed(own: Properties, otherwise: Properties): HadoopConfiguration {
  return HadoopConfiguration.fromProperties({ ...nameNodesUnsaid(own, otherwise), ...resourceManagersUnsaid(own, otherwise), ...own });
}

function isLoginDemanded(error: unknown): boolean {
  return error instanceof UnexpectedStatus && (error.status === 401 || error.status === 403);
}

type Properties = Readonly<Record<string, string>>;

/**
 * For a NameNode given as host and port: the address of its web server, on the same host. For a nameservice, whose hosts no other property
 * names: all properties of `otherwise`.
 */
function nameNodesUnsaid(own: Properties, otherwise: Properties): Properties {
  if (says(own, NAME_NODES)) {
    return {};
  }
  const said = partOf(otherwise, NAME_NODES);
  const { defaultFs } = HadoopConfiguration.fromProperties(own);
  const authority = defaultFs.slice('hdfs://'.length);
  if (!defaultFs.startsWith('hdfs://') || !/:\d+$/.test(authority)) {
    return said;
  }
  const [url = ''] = addressesOf(() => HadoopConfiguration.fromProperties({ ...said, 'fs.defaultFS': defaultFs }).nameNodes(authority));
  const [scheme, address = ''] = url.split('://');
  if (!isSameHost(address, authority)) {
    return {};
  }
  return scheme === 'https'
    ? { 'dfs.http.policy': 'HTTPS_ONLY', 'dfs.namenode.https-address': address }
    : { 'dfs.namenode.http-address': address };
}

/** If the node sets only the address where it registers, the ResourceManager runs on that host. */
function resourceManagersUnsaid(own: Properties, otherwise: Properties): Properties {
  if (says(own, RESOURCE_MANAGERS)) {
    return {};
  }
  const said = partOf(otherwise, RESOURCE_MANAGERS);
  const registersAt = HadoopConfiguration.fromProperties(own).get('yarn.resourcemanager.resource-tracker.address');
  if (registersAt === undefined) {
    return said;
  }
  const there = Object.entries(said).filter(([key, value]) => /\.webapp\.(https\.)?address$/.test(key) && isSameHost(value, registersAt));
  return { ...Object.fromEntries(there), 'yarn.resourcemanager.hostname': hostOf(registersAt) };
}

/** An invalid setting in `otherwise` must not discard the node's configuration in favour of the job's. */
function addressesOf(find: () => readonly string[]): readonly string[] {
  try {
    return find();
  } catch {
    return [];
  }
}

function says(properties: Properties, part: RegExp): boolean {
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

/** Tries HTTP, then HTTPS: only a configuration names the protocol, and the available one may come from any user. */
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
