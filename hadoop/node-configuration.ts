import { HadoopConfiguration } from './configuration.ts';
import { propertiesOfDaemon, withoutDefaults } from './remote-configuration.ts';

/** A NodeManager's web server, as NM_HOST and NM_HTTP_PORT tell it to its containers. */
export interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

/** What a node may be silent about, since it needs it for nothing itself. */
const NAME_NODES = /^dfs\./;
const RESOURCE_MANAGERS = /^yarn\.resourcemanager\.(hostname|webapp|ha)\b/;

/**
 * The configuration by which the NodeManager of this very host finds its cluster: no user of the cluster has written it. Where the web servers of
 * its NameNodes or ResourceManagers are it may leave unsaid; that is taken from `otherwise`, but from hosts that the node names to no others.
 *
 * @returns null when its web server does not say it to everybody, or not in time.
 */
export async function configurationOfNode(
  { host, port }: NodeAddress,
  otherwise: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<HadoopConfiguration | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, null);
  });
  try {
    const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`;
    const own = await Promise.race([ownProperties(authority, timeoutMs), late]);
    if (own?.['fs.defaultFS'] === undefined) return null;
    return HadoopConfiguration.fromProperties({ ...nameNodesUnsaid(own, otherwise), ...resourceManagersUnsaid(own, otherwise), ...own });
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}

type Properties = Readonly<Record<string, string>>;

/** Of NameNodes that go by a host and a port the port of the web server; of a nameservice, whose hosts nothing else names, all. */
function nameNodesUnsaid(own: Properties, otherwise: Properties): Properties {
  if (says(own, NAME_NODES)) return {};
  const said = partOf(otherwise, NAME_NODES);
  const { defaultFs } = HadoopConfiguration.fromProperties(own);
  const authority = defaultFs.slice('hdfs://'.length);
  if (!defaultFs.startsWith('hdfs://') || !/:\d+$/.test(authority)) return said;
  const [url = ''] = addressesOf(() => HadoopConfiguration.fromProperties({ ...said, 'fs.defaultFS': defaultFs }).nameNodes(authority));
  const [scheme, address = ''] = url.split('://');
  if (!isSameHost(address, authority)) return {};
  return scheme === 'https'
    ? { 'dfs.http.policy': 'HTTPS_ONLY', 'dfs.namenode.https-address': address }
    : { 'dfs.namenode.http-address': address };
}

/** A node that only says where it registers has its ResourceManager on that host. */
function resourceManagersUnsaid(own: Properties, otherwise: Properties): Properties {
  if (says(own, RESOURCE_MANAGERS)) return {};
  const said = partOf(otherwise, RESOURCE_MANAGERS);
  const registersAt = HadoopConfiguration.fromProperties(own).get('yarn.resourcemanager.resource-tracker.address');
  if (registersAt === undefined) return said;
  const there = Object.entries(said).filter(([key, value]) => /\.webapp\.(https\.)?address$/.test(key) && isSameHost(value, registersAt));
  return { ...Object.fromEntries(there), 'yarn.resourcemanager.hostname': hostOf(registersAt) };
}

/** What makes no sense must not end all: then the job's own configuration would count. */
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

/** Of `host:port`, or of a host alone. */
function hostOf(address: string): string {
  return address.replace(/:\d+$/, '');
}

/** Which of the two it speaks only configurations say, and the one at hand may be anybody's. */
async function ownProperties(authority: string, timeoutMs: number): Promise<Record<string, string>> {
  const all = await propertiesOfDaemon(new URL(`http://${authority}`), { timeoutMs }).catch(() =>
    propertiesOfDaemon(new URL(`https://${authority}`), { timeoutMs, anyCertificate: true }),
  );
  // Defaults of a NodeManager differ from those of an ApplicationMaster: `HadoopConfiguration` has the ones that are used.
  return withoutDefaults(all);
}
