import { describe, expect, test } from 'vitest';
import { HadoopConfiguration } from '../configuration.ts';
import { gatewayOf, gatewayProperties, redirectOfGateway } from './gateway.ts';
import type { FileSystemName } from './name-nodes.ts';

const CLUSTER = {
  'dfs.nameservices': 'ns1,ns2',
  'dfs.ha.namenodes.ns1': 'a,b',
  'dfs.namenode.rpc-address.ns1.a': 'a1:8020',
  'dfs.namenode.http-address.ns1.a': 'a1:9870',
  'dfs.namenode.rpc-address.ns2': 'c:8020',
};
const hdfs = (authority: string): FileSystemName => ({ scheme: 'hdfs', authority });
const withGateway = (gateway: string | Record<string, string>, defaultFs = 'hdfs://ns1') =>
  HadoopConfiguration.fromProperties({ 'fs.defaultFS': defaultFs, ...CLUSTER, ...gatewayProperties(gateway) });

test('one gateway serves the default file system under all of its names', () => {
  const configuration = withGateway('https://knox:8443/gateway/default/');
  for (const fileSystem of [hdfs('ns1'), hdfs('a1:8020'), { scheme: 'webhdfs', authority: 'a1:9870' } as const]) {
    expect(gatewayOf(configuration, fileSystem)).toBe('https://knox:8443/gateway/default');
  }
  expect(gatewayOf(configuration, hdfs('ns2'))).toBeNull();
  expect(configuration.offersHttps).toBe(true);
});

test('one gateway cannot serve a mount table, but one gateway per nameservice can', () => {
  const several = withGateway({ ns1: 'http://one:14000', 'c:8020': 'http://two:14000' }, 'viewfs://x');
  expect([gatewayOf(several, hdfs('ns1')), gatewayOf(several, hdfs('ns2')), gatewayOf(several, hdfs('ns3'))]).toEqual([
    'http://one:14000',
    'http://two:14000',
    null,
  ]);
  expect(() => gatewayOf(withGateway('http://one:14000', 'viewfs://x'), hdfs('ns1'))).toThrow(
    'cannot serve all file systems of viewfs://x',
  );
});

test.each(['knox:8443', 'ftp://knox', 'https://user:pw@knox', 'https://knox?x=1'])('%s is not a gateway, and is not quoted', (address) => {
  expect(() => gatewayOf(withGateway(address), hdfs('ns1'))).toThrow(/^storage\.gateway is not the address of a web server\.$/);
});

describe('redirects of gateways', () => {
  const knox = new URL('https://knox:8443/gateway/default/webhdfs/v1/tmp/file?op=CREATE&overwrite=true');
  const httpFs = new URL('http://httpfs:14000/webhdfs/v1/tmp/file?op=CREATE&overwrite=true&user.name=alice');

  test('Knox redirects to its own path for data', () => {
    const location = 'https://knox:8443/gateway/default/webhdfs/data/v1/webhdfs/v1/tmp/file?_=AAAACAAAABAAAAEQ';
    expect(redirectOfGateway(knox, location)?.href).toBe(location);
    expect(redirectOfGateway(knox, '/gateway/default/webhdfs/data/v1/x?_=A')?.href).toBe(
      'https://knox:8443/gateway/default/webhdfs/data/v1/x?_=A',
    );
  });

  test('HttpFS redirects to itself, although a load balancer may have changed the host and the scheme', () => {
    const location = `${httpFs.href}&data=true`;
    expect(redirectOfGateway(httpFs, location)?.href).toBe(location);
    const behind = new URL('https://balancer/hdfs/webhdfs/v1/tmp/file?op=CREATE&user.name=alice');
    expect(redirectOfGateway(behind, 'http://httpfs-3:14000/webhdfs/v1/tmp/file?op=CREATE&user.name=alice&data=true')?.href).toBe(
      'https://balancer/hdfs/webhdfs/v1/tmp/file?op=CREATE&user.name=alice&data=true',
    );
  });

  test.each(['http://dn7:9864/webhdfs/v1/tmp/file?op=CREATE&namenoderpcaddress=nn:8020', 'http://dn7:9864/other?data=true', 'http://['])(
    'a redirect to another server does not come from a gateway: %s',
    (location) => {
      expect(redirectOfGateway(knox, location)).toBeNull();
    },
  );
});
