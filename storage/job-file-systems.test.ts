import { expect, test } from 'vitest';
import type { FrozenJob } from '../conf/job.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { fileSystemsOfJob } from './job-file-systems.ts';

const CLUSTER = {
  'fs.defaultFS': 'viewfs://cluster',
  'dfs.nameservices': 'ns1,ns2',
  'dfs.ha.namenodes.ns1': 'a,b',
  'dfs.namenode.rpc-address.ns1.a': 'a1:8020',
  'dfs.namenode.http-address.ns1.a': 'a1:9870',
  'dfs.namenode.rpc-address.ns2': 'c:8020',
  'fs.viewfs.mounttable.cluster.link./user': 'hdfs://ns1/user',
  'fs.viewfs.mounttable.cluster.linkFallback': 'hdfs://ns2/',
};
const jobWith = (...uris: string[]): FrozenJob => ({ data: uris, cluster: { hadoop: { x: 'hdfs://not-used' } } }) as unknown as FrozenJob;

test('a job needs tokens of the default file system and of every file system that it names', () => {
  const configuration = HadoopConfiguration.fromProperties(CLUSTER);
  expect(fileSystemsOfJob(jobWith(), configuration)).toEqual(['hdfs://ns1', 'hdfs://ns2']);
  const named = jobWith('hdfs://a1:8020/x', 'webhdfs://a1:9870/x', 'webhdfs://other:9870/x', 'hdfs://elsewhere:8020/a,hdfs://third/b');
  expect(fileSystemsOfJob(named, configuration)).toEqual([
    'hdfs://ns1',
    'webhdfs://other:9870',
    'hdfs://elsewhere:8020',
    'hdfs://third',
    'hdfs://ns2',
  ]);
});

test('text that only resembles an HDFS URI needs no token', () => {
  expect(
    fileSystemsOfJob(jobWith('viewfs://no-such-table/x', 'hdfs://a b', 'hdfs://x:y/z'), HadoopConfiguration.fromProperties(CLUSTER)),
  ).toEqual(['hdfs://a', 'hdfs://ns1', 'hdfs://ns2']);
});

test('HttpFS issues its own tokens, and Knox issues none', () => {
  const gateways = { 'tony.storage.gateway.ns1': 'http://httpfs:14000', 'tony.storage.gateway.ns2': 'https://knox/gateway/default' };
  expect(fileSystemsOfJob(jobWith(), HadoopConfiguration.fromProperties({ ...CLUSTER, ...gateways }))).toEqual([
    'hdfs://ns1',
    'hdfs://ns2',
    'webhdfs://httpfs:14000',
  ]);
});
