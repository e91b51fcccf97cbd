import { expect, test } from 'vitest';
import { HadoopConfiguration } from '../configuration.ts';
import { daemonUri, fileSystemsOf, type HdfsPlace, homeFileSystem, homesOf, locationOf, placeOf } from './hdfs-place.ts';
import { fileSystemUri } from './name-nodes.ts';

const mounts = (name: string, links: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(links).map(([key, target]) => [`fs.viewfs.mounttable.${name}.${key}`, target]));

const configuration = HadoopConfiguration.fromProperties({
  'fs.defaultFS': 'viewfs://cluster.example/',
  'dfs.nameservices': 'ns1,ns2',
  'dfs.ha.namenodes.ns1': 'a,b',
  'dfs.namenode.rpc-address.ns1.a': 'a1:8020',
  'dfs.namenode.http-address.ns1.a': 'a1:9870',
  'dfs.namenode.rpc-address.ns1.b': 'b1:8020',
  'dfs.namenode.rpc-address.ns2': 'c:8020',
  ...mounts('cluster.example', {
    homedir: '/home',
    'link./home': 'hdfs://ns1/user',
    'link./data': 'webhdfs://a1:9870/data/',
    'link./private/archive': 'viewfs://default/old',
    'link./local': 'file:///tmp',
    'link./loop': 'viewfs://cluster.example/loop',
  }),
  ...mounts('default', { linkMergeSlash: 'hdfs://ns2/' }),
});

function place(uri: string, of = configuration): HdfsPlace {
  const location = locationOf(uri);
  if (location === null) {
    throw new Error(`${uri} is not an HDFS URI`);
  }
  return placeOf(of, location);
}
function target(uri: string, of = configuration): string | null {
  const found = place(uri, of).target;
  return found && `${fileSystemUri(found.fileSystem)}${found.path}`;
}

test('mount tables map URIs to file systems', () => {
  expect(target('hdfs://ns1/a')).toBe('hdfs://ns1/a');
  expect(target('viewfs://cluster.example/home/alice')).toBe('hdfs://ns1/user/alice');
  expect(target('viewfs://cluster.example/data')).toBe('webhdfs://a1:9870/data');
  expect(target('viewfs://cluster.example/private/archive/x')).toBe('hdfs://ns2/old/x');
  expect(target('viewfs://default/x')).toBe('hdfs://ns2/x');
  expect(target('viewfs://cluster.example/private')).toBeNull();
  expect(place('viewfs://cluster.example/private')).toMatchObject({ isFixed: true, names: ['archive'] });
  expect(place('viewfs://cluster.example/nowhere')).toMatchObject({ target: null, isFixed: false, names: [] });
});

test('a URI without an authority is on the default file system', () => {
  expect(target('viewfs:///home/alice')).toBe('hdfs://ns1/user/alice');
  expect(target('hdfs:///home/alice')).toBe('hdfs://ns1/user/alice');
  const web = HadoopConfiguration.fromProperties({
    'fs.defaultFS': 'swebhdfs://nn:9871',
    ...mounts('default', { linkFallback: 'hdfs://x/' }),
  });
  expect(target('hdfs:///a', web)).toBe('swebhdfs://nn:9871/a');
  expect(target('viewfs:///a', web)).toBe('hdfs://x/a');
  const local = HadoopConfiguration.fromProperties({});
  expect(() => target('hdfs:///a', local)).toThrow('hdfs:///a names no NameNode, and fs.defaultFS is file:.');
  const renamed = HadoopConfiguration.fromProperties({
    'fs.defaultFS': 'viewfs:///',
    'fs.viewfs.mounttable.default.name.key': 'main',
    ...mounts('main', { linkFallback: 'hdfs://x/' }),
  });
  expect([renamed.defaultFs, target('viewfs:///a', renamed), target('hdfs:///a', renamed)]).toEqual([
    'viewfs://main',
    'hdfs://x/a',
    'hdfs://x/a',
  ]);
});

test('rejects links to unsupported file systems and links that form a cycle', () => {
  expect(() => target('viewfs://cluster.example/local/x')).toThrow(
    'leads to file:///tmp/x, which is not on a file system that tony-ts supports',
  );
  expect(() => target('viewfs://cluster.example/loop')).toThrow('refer to one another');
  expect(() => target('viewfs://other/a')).toThrow('no mount table for viewfs://other');
});

test('places below different mount points are different', () => {
  const mountOf = (uri: string): string => place(uri).mount;
  expect(mountOf('viewfs://cluster.example/home/a')).toBe(mountOf('viewfs://cluster.example/home/b/c'));
  expect(mountOf('viewfs://cluster.example/home/a')).not.toBe(mountOf('viewfs://cluster.example/data/a'));
  expect(mountOf('hdfs://ns1/a')).not.toBe(mountOf('hdfs://ns2/a'));
});

test('daemons receive URIs that do not need mount tables, with RPC addresses if these are known', () => {
  expect(daemonUri(configuration, 'viewfs://cluster.example/home/a')).toBe('hdfs://ns1/user/a');
  expect(daemonUri(configuration, 'viewfs://cluster.example/data/a')).toBe('hdfs://ns1/data/a');
  expect(daemonUri(configuration, 'webhdfs://other:1/a')).toBe('webhdfs://other:1/a');
  expect(daemonUri(configuration, 'hdfs://a1:8020/a')).toBe('hdfs://a1:8020/a');
  expect(daemonUri(configuration, 'file:///a')).toBe('file:///a');
});

test('the file systems of a mount table are the targets of all of its links', () => {
  const names = fileSystemsOf(configuration, { scheme: 'viewfs', authority: 'cluster.example', path: '/' }).map(fileSystemUri);
  expect([...new Set(names)]).toEqual(['hdfs://ns1', 'webhdfs://a1:9870', 'hdfs://ns2']);
});

test('home folders are on the file system to which the mount table leads', () => {
  expect(homesOf(configuration)).toBe('viewfs://cluster.example/home');
  expect(homeFileSystem(configuration)).toEqual({ scheme: 'hdfs', authority: 'ns1' });
  expect(homesOf(HadoopConfiguration.fromProperties({ 'fs.defaultFS': 'hdfs://ns1' }))).toBe('hdfs://ns1/user');
  expect(homeFileSystem(HadoopConfiguration.fromProperties({}))).toBeNull();
});

test('job.json contains the mount tables, even with paths that look like secrets', () => {
  const properties = {
    ...mounts('c', { 'link./private/token': 'hdfs://x/' }),
    'tony.storage.gateway.ns1': 'https://knox',
    'fs.s3a.secret.key': 'x',
  };
  expect(HadoopConfiguration.fromProperties(properties).freeze()).toEqual({
    'fs.viewfs.mounttable.c.link./private/token': 'hdfs://x/',
    'tony.storage.gateway.ns1': 'https://knox',
  });
});
