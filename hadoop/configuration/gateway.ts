import { TonyError } from '../../platform/errors.ts';
import type { HadoopConfiguration } from './configuration.ts';
import { locationOf } from './hdfs-place.ts';
import { type FileSystemName, isSameFileSystem } from './name-nodes.ts';

/**
 * The address of HttpFS or Knox, if all WebHDFS requests to the default file system go through this gateway. Hadoop does not define this
 * property: its value comes from `storage` in the site file. `tony.storage.gateway.AUTHORITY` sets the gateway of another file system. Both
 * properties are part of the job's configuration.
 */
const GATEWAY = 'tony.storage.gateway';

/**
 * Returns the properties for `storage.gateway` of a site file. The option contains one address, or addresses keyed by nameservice or
 * `host:port`.
 */
export function gatewayProperties(gateway: string | Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return typeof gateway === 'string'
    ? { [GATEWAY]: gateway }
    : Object.fromEntries(Object.entries(gateway).map(([authority, address]) => [`${GATEWAY}.${authority}`, address]));
}

/**
 * Returns the base URL of the gateway of a file system, without a trailing slash; null if requests go to the NameNodes.
 *
 * @throws TonyError HADOOP_CONF_INVALID
 */
export function gatewayOf(configuration: HadoopConfiguration, fileSystem: FileSystemName): string | null {
  for (const [authority, address] of configuration.withPrefix(`${GATEWAY}.`)) {
    if (isSameFileSystem(configuration, { scheme: 'hdfs', authority }, fileSystem)) {
      return checked(address);
    }
  }
  const address = configuration.get(GATEWAY);
  if (address === undefined) {
    return null;
  }
  const standard = locationOf(configuration.defaultFs);
  if (standard?.scheme === 'viewfs') {
    throw new TonyError('HADOOP_CONF_INVALID', `One gateway (${address}) cannot serve all file systems of ${configuration.defaultFs}.`, {
      hint: 'Name a gateway for each nameservice: storage: {gateway: {ns1: https://..., ns2: https://...}}.',
    });
  }
  const isStandard =
    standard !== null && isSameFileSystem(configuration, { scheme: standard.scheme, authority: standard.authority }, fileSystem);
  return isStandard ? checked(address) : null;
}

/** Returns the base URLs of all gateways. */
export function allGateways(configuration: HadoopConfiguration): readonly string[] {
  const addresses = [configuration.get(GATEWAY) ?? '', ...configuration.withPrefix(`${GATEWAY}.`).values()];
  return [...new Set(addresses.filter((address) => address !== '').map(checked))];
}

function checked(address: string): string {
  const url = /^https?:\/\//i.test(address) && URL.canParse(address) ? new URL(address) : null;
  if (url === null || url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '') {
    throw new TonyError('HADOOP_CONF_INVALID', "The file system's gateway must be the address of a web server.", {
      hint: 'Set storage.gateway in tony-site.yaml to an address such as https://host:port or https://host:port/gateway/default, without user, query or #.',
    });
  }
  return url.href.replace(/\/+$/, '');
}

/**
 * Returns the URL of a redirected transfer, always on the gateway itself. Knox redirects to another path on the gateway. HttpFS redirects
 * to the same path with `data=true`, but behind a load balancer, the host or scheme may be wrong.
 *
 * @returns null if the redirect leads to another server. Such a redirect means that the server at the gateway's address is a NameNode, or a
 * gateway that exposes DataNodes.
 */
export function redirectOfGateway(gateway: URL, location: string): URL | null {
  if (!URL.canParse(location, gateway.href)) {
    return null;
  }
  const target = new URL(location, gateway);
  if (target.origin === gateway.origin) {
    return target;
  }
  const isHttpFs = target.pathname.startsWith('/webhdfs/v1/') && target.searchParams.get('data') === 'true';
  if (!isHttpFs) {
    return null;
  }
  const own = new URL(gateway);
  own.search = target.search;
  own.searchParams.delete('noredirect');
  return own;
}
