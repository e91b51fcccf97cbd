import { TonyError } from '../../../platform/errors.ts';
import { withoutEnd } from '../../../platform/text/without-end.ts';
import type { HadoopConfiguration } from '../configuration.ts';
import { locationOf } from './hdfs-place.ts';
import { type FileSystemName, isSameFileSystem } from './name-nodes.ts';

/**
 * The address of the HttpFS server or Knox topology that receives all WebHDFS requests to the default file system.
 * `tony.storage.gateway.AUTHORITY` is the address for another file system. Both properties come from `storage.gateway` in the site file,
 * and are copied into job.json.
 */
const GATEWAY = 'tony.storage.gateway';

/**
 * Converts a site file's `storage.gateway` setting to properties.
 * @param gateway one address, or addresses keyed by nameservice or `host:port`
 */
export function gatewayProperties(gateway: string | Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return typeof gateway === 'string'
    ? { [GATEWAY]: gateway }
    : Object.fromEntries(Object.entries(gateway).map(([authority, address]) => [`${GATEWAY}.${authority}`, address]));
}

/**
 * Returns the base URL of a file system's gateway, without a trailing slash. Returns null if requests go directly to the NameNodes.
 *
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

export function allGateways(configuration: HadoopConfiguration): readonly string[] {
  const addresses = [configuration.get(GATEWAY) ?? '', ...configuration.withPrefix(`${GATEWAY}.`).values()];
  return [...new Set(addresses.filter((address) => address !== '').map(checked))];
}

function checked(address: string): string {
  const url = /^https?:\/\//i.test(address) && URL.canParse(address) ? new URL(address) : null;
  if (url === null || url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '') {
    throw new TonyError('HADOOP_CONF_INVALID', 'storage.gateway is not the address of a web server.', {
      hint: 'Set storage.gateway in tony-site.yaml to an address such as https://host:port or https://host:port/gateway/default, without user, query or #.',
    });
  }
  return withoutEnd(url.href, '/');
}

/**
 * Resolves a file transfer's redirect to a URL on the gateway. Knox redirects to another path on the gateway. HttpFS redirects to a URL
 * with the same path and `data=true`, but if HttpFS runs behind a load balancer, that URL's host or scheme may be wrong.
 *
 * @returns null if the redirect leads to another server. This means that the configured server is a NameNode, or a gateway that exposes
 * DataNodes.
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
