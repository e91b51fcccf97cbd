import { expect, test } from 'vitest';
import { httpsIfTrusted } from '../authorities.ts';
import { HadoopConfiguration } from '../configuration.ts';
import { fileSystemServers, isNamedFileSystem, namedServers } from './named-servers.ts';

const from = (properties: Readonly<Record<string, string>>): HadoopConfiguration => HadoopConfiguration.fromProperties(properties);
const RM = { 'yarn.resourcemanager.hostname': 'rm' };

test('the configuration names ResourceManagers, the web proxy, NameNodes, gateways and key servers', () => {
  const configuration = from({
    'yarn.resourcemanager.ha.enabled': 'true',
    'yarn.resourcemanager.ha.rm-ids': 'a,b',
    'yarn.resourcemanager.hostname.a': 'rma',
    'yarn.resourcemanager.webapp.address.b': 'rmb:18088',
    'yarn.web-proxy.address': 'proxy:9099',
    'fs.defaultFS': 'viewfs://all',
    'fs.viewfs.mounttable.all.link./logs': 'hdfs://linked:8020/logs',
    'fs.viewfs.mounttable.all.linkNfly.x./n': 'hdfs://one/n,webhdfs://two:14000/n',
    'dfs.nameservices': 'ns1',
    'dfs.ha.namenodes.ns1': 'x,y',
    'dfs.namenode.rpc-address.ns1.x': 'nx:8020',
    'dfs.namenode.rpc-address.ns1.y': 'ny:8020',
    'dfs.namenode.http-address.ns1.x': '0.0.0.0:19870',
    'mapreduce.job.hdfs-servers': 'hdfs://archive:8020, hdfs://old',
    'yarn.nodemanager.remote-app-log-dir': 'hdfs://logs:9000/logs',
    'tony.storage.gateway.ns1': 'https://knox:8443/gateway/default',
    'hadoop.security.key.provider.path': 'kms://https@k1;k2:9600/kms',
  });
  expect([...new Set(namedServers(configuration).map((server) => new URL(server).host))].sort()).toEqual([
    ...['archive:9870', 'archive:9871', 'k1:9600', 'k2:9600', 'knox:8443', 'linked:9870', 'linked:9871', 'logs:9870', 'logs:9871'],
    ...['nx:19870', 'nx:9871', 'ny:9870', 'ny:9871', 'old:9870', 'old:9871', 'one:9870', 'one:9871', 'proxy:9099', 'rma:8088', 'rmb:18088'],
    'two:14000',
  ]);
});

test('a single NameNode is named by fs.defaultFS or by its addresses', () => {
  const byDefault = from({ ...RM, 'fs.defaultFS': 'hdfs://nn:9000', 'dfs.namenode.http-address': '0.0.0.0:19870' });
  expect(namedServers(byDefault)).toEqual(expect.arrayContaining(['http://rm:8088', 'http://nn:19870', 'https://nn:9871']));
  const byAddress = from({ ...RM, 'dfs.namenode.rpc-address': 'nn:9000', 'dfs.namenode.https-address': 'nn:19871' });
  expect(namedServers(byAddress)).toEqual(expect.arrayContaining(['http://nn:9870', 'https://nn:19871']));
});

test('an invalid address of an unused property does not prevent a login', () => {
  expect(namedServers(from({ ...RM, 'mapreduce.job.hdfs-servers': 'hdfs://a:b:c,hdfs://,file:///x,nonsense' }))).toContain(
    'http://rm:8088',
  );
});

test('a file system is named if all its servers are', () => {
  const configuration = from({
    ...RM,
    'fs.defaultFS': 'hdfs://ns1',
    'dfs.nameservices': 'ns1,ns2',
    'dfs.namenode.rpc-address.ns1': 'n1:8020',
    'dfs.namenode.rpc-address.ns2': 'n2:8020',
    'fs.viewfs.mounttable.all.link./a': 'hdfs://ns1/a',
  });
  const named = [
    'hdfs:///x',
    'hdfs://ns2/x',
    'hdfs://N1:8020/x',
    'webhdfs://n1:9870/x',
    'swebhdfs://n2/x',
    'viewfs://all/a',
    's3://b/x',
    'file:///x',
  ];
  expect(named.filter((uri) => !isNamedFileSystem(configuration, uri))).toEqual([]);
  const unknown = ['hdfs://n3/x', 'hdfs://node7:8020/x', 'webhdfs://n1:9869/x', 'hdfs://ns3/x'];
  expect(unknown.filter((uri) => isNamedFileSystem(configuration, uri))).toEqual([]);
});

test("if HDFS serves only HTTPS, the NameNodes' HTTP ports are not named, because other programs can listen there", () => {
  const single = {
    ...RM,
    'fs.defaultFS': 'hdfs://nn:8020',
    'dfs.namenode.http-address': 'nn:9870',
    'dfs.namenode.https-address': 'nn:9871',
    'mapreduce.job.hdfs-servers': 'hdfs://archive:8020',
    'dfs.nameservices': 'ns1',
    'dfs.namenode.rpc-address.ns1': 'n1:8020',
  };
  const plain = (properties: Readonly<Record<string, string>>): string[] =>
    fileSystemServers(from({ ...single, ...properties })).filter((server) => server.startsWith('http:'));
  expect(plain({ 'dfs.http.policy': 'HTTPS_ONLY' })).toEqual([]);
  expect(isNamedFileSystem(from({ ...single, 'dfs.http.policy': 'HTTPS_ONLY' }), 'webhdfs://nn:9870/x')).toBe(false);
  expect(isNamedFileSystem(from({ ...single, 'dfs.http.policy': 'HTTPS_ONLY' }), 'hdfs://nn:8020/x')).toBe(true);
  expect(new Set(plain({}))).toEqual(new Set(['http://nn:9870', 'http://archive:9870', 'http://n1:9870']));
  expect(plain({ 'dfs.http.policy': 'HTTP_AND_HTTPS' })).toEqual(plain({}));
  // tony-ts selects HTTPS because it trusts the servers' certificates. The NameNodes listen on both ports.
  expect(plain(httpsIfTrusted(from({ 'dfs.http.policy': 'HTTP_AND_HTTPS' }), 'a certificate'))).toEqual(plain({}));
  // HttpFS without TLS, named with its scheme.
  expect(plain({ 'dfs.http.policy': 'HTTPS_ONLY', 'mapreduce.job.hdfs-servers': 'webhdfs://httpfs:14000' })).toEqual([
    'http://httpfs:14000',
  ]);
});

test('ResourceManagers, web proxies and key servers are not file systems', () => {
  const configuration = from({
    ...RM,
    'fs.defaultFS': 'hdfs://nn:8020',
    'yarn.web-proxy.address': 'proxy:9099',
    'hadoop.security.key.provider.path': 'kms://http@kms:9600/kms',
    'tony.storage.gateway': 'http://httpfs:14000',
  });
  const uris = ['webhdfs://rm:8088/x', 'webhdfs://proxy:9099/x', 'webhdfs://kms:9600/x'];
  expect(uris.filter((uri) => isNamedFileSystem(configuration, uri))).toEqual([]);
  expect(isNamedFileSystem(configuration, 'webhdfs://httpfs:14000/x')).toBe(true);
});
