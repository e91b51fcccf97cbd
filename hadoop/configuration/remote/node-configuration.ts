import { formatAddress } from '../../../platform/address.ts';
import { withTimeout } from '../../../platform/async/deadline.ts';
import { AUTHORITIES, HDFS_POLICY, HTTPS_OF_BOTH, offersBoth, withAuthorities } from '../authorities.ts';
import { HadoopConfiguration } from '../configuration.ts';
import { nameNodesOf } from '../file-systems/name-nodes.ts';
import { propertiesOfDaemon, UnexpectedStatus, withoutDefaults } from './remote-configuration.ts';

/** The NodeManager web server's address, from NM_HOST and NM_HTTP_PORT in a container's environment. */
export interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

/** Properties that may be missing from a NodeManager's configuration, because NodeManagers do not use them. */
const NAME_NODES = /^dfs\./;
const RESOURCE_MANAGERS = /^yarn\.resourcemanager\.(hostname|webapp|ha)\b/;

/**
 * Reads the local NodeManager's configuration, which cluster users cannot change. Web addresses of NameNodes or ResourceManagers that are
 * missing from this configuration come from `otherwise`. For security, an address is accepted only if the NodeManager's configuration names
 * its host.
 * @param onRefused called if the NodeManager requires a login; returns a configuration from another trusted source
 * @returns null if the NodeManager does not publish its configuration or does not respond in time
 * @throws any error from `onRefused`
 */
export async function configurationOfNode(
  { host, port }: NodeAddress,
  otherwise: Readonly<Record<string, string>>,
  timeoutMs: number,
  onRefused: () => Promise<HadoopConfiguration>,
): Promise<HadoopConfiguration | null> {
  try {
    const own = await withTimeout(ownProperties(formatAddress({ host, port }), timeoutMs), timeoutMs, () => null);
    return own?.['fs.defaultFS'] === undefined ? null : completed(own, otherwise);
  } catch (error) {
    if (isLoginRequired(error)) {
      return onRefused();
    }
    return null;
  }
}

/**
 * Adds missing properties from `otherwise` to a daemon's configuration. Addresses are added only for hosts that `own` names. The trusted
 * authorities also come from `otherwise`, because daemons do not report them. If HDFS offers both HTTP and HTTPS, `otherwise` determines
 * the protocol.
 */
export function completed(own: Properties, otherwise: Properties): HadoopConfiguration {
  const { [AUTHORITIES]: authorities = '' } = otherwise;
  const missing = { ...missingNameNodes(own, otherwise), ...missingResourceManagers(own, otherwise) };
  const completed = HadoopConfiguration.fromProperties({ ...missing, ...own });
  const prefersHttps = offersBoth(completed) && otherwise[HDFS_POLICY] === 'HTTPS_ONLY';
  return withAuthorities(prefersHttps ? completed.with(HTTPS_OF_BOTH) : completed, authorities);
}

function isLoginRequired(error: unknown): boolean {
  return error instanceof UnexpectedStatus && (error.status === 401 || error.status === 403);
}

type Properties = Readonly<Record<string, string>>;

/**
 * Returns the NameNode properties that are missing from `own`. If fs.defaultFS in `own` is a host and port, the result contains only the
 * web address on that host. If fs.defaultFS is a nameservice, the result contains all NameNode properties in `otherwise`, because `own`
 * does not name the hosts.
 */
function missingNameNodes(own: Properties, otherwise: Properties): Properties {
  if (setsAny(own, NAME_NODES)) {
    return {};
  }
  const supplied = partOf(otherwise, NAME_NODES);
  const { defaultFs } = HadoopConfiguration.fromProperties(own);
  const authority = defaultFs.slice('hdfs://'.length);
  if (/^(s?webhdfs|viewfs):/i.test(defaultFs)) {
    // For these schemes, accept only nameservices that the node itself defines. The user may have changed addresses in job.json to servers
    // under their control.
    return {};
  }
  if (!defaultFs.startsWith('hdfs://') || !/:\d+$/.test(authority)) {
    return supplied;
  }
  const [url = ''] = addressesOf(() =>
    nameNodesOf(HadoopConfiguration.fromProperties({ ...supplied, 'fs.defaultFS': defaultFs }), { scheme: 'hdfs', authority }),
  );
  const [scheme, address = ''] = url.split('://');
  if (!isSameHost(address, authority)) {
    return {};
  }
  return scheme === 'https'
    ? { 'dfs.http.policy': 'HTTPS_ONLY', 'dfs.namenode.https-address': address }
    : { 'dfs.namenode.http-address': address };
}

/**
 * Returns the ResourceManager properties that are missing from `own`. If `own` contains the resource tracker address, the result contains
 * only addresses on the same host.
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

/** Returns an empty list if `otherwise` contains invalid settings, so that the NodeManager's configuration can still be used. */
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

function hostOf(address: string): string {
  return address.replace(/:\d+$/, '');
}

/** Tries HTTP first, then HTTPS, because no trusted setting for the protocol is available yet. */
async function ownProperties(authority: string, timeoutMs: number): Promise<Record<string, string>> {
  const all = await propertiesOfDaemon(new URL(`http://${authority}`), { timeoutMs }).catch((error: unknown) => {
    if (isLoginRequired(error)) {
      throw error;
    }
    return propertiesOfDaemon(new URL(`https://${authority}`), { timeoutMs, anyCertificate: true });
  });
  // Omit default values, because the NodeManager's Hadoop version may have different defaults from those in `HadoopConfiguration`.
  return withoutDefaults(all);
}
