import { expect, test } from 'vitest';
import type { Job } from '../../conf/job.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { fileSystemsIn, refuseUnknownFileSystems } from './job-file-systems.ts';

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

test('a job needs tokens of the default file system and of every file system that it names', () => {
  const configuration = HadoopConfiguration.fromProperties(CLUSTER);
  expect(fileSystemsIn([], configuration)).toEqual(['hdfs://ns1', 'hdfs://ns2']);
  const named = ['hdfs://a1:8020/x', 'webhdfs://a1:9870/x', 'webhdfs://other:9870/x', 'hdfs://elsewhere:8020/a,hdfs://third/b'];
  expect(fileSystemsIn(named, configuration)).toEqual([
    'hdfs://ns1',
    'webhdfs://other:9870',
    'hdfs://elsewhere:8020',
    'hdfs://third',
    'hdfs://ns2',
  ]);
});

test('text that only resembles an HDFS URI needs no token', () => {
  expect(fileSystemsIn(['viewfs://no-such-table/x', 'hdfs://a b', 'hdfs://x:y/z'], HadoopConfiguration.fromProperties(CLUSTER))).toEqual([
    'hdfs://a',
    'hdfs://ns1',
    'hdfs://ns2',
  ]);
});

test('HttpFS issues its own tokens, and Knox issues none', () => {
  const gateways = { 'tony.storage.gateway.ns1': 'http://httpfs:14000', 'tony.storage.gateway.ns2': 'https://knox/gateway/default' };
  expect(fileSystemsIn([], HadoopConfiguration.fromProperties({ ...CLUSTER, ...gateways }))).toEqual([
    'hdfs://ns1',
    'hdfs://ns2',
    'webhdfs://httpfs:14000',
  ]);
});

const SECURE = { ...CLUSTER, 'hadoop.security.authentication': 'kerberos' };

test('with Kerberos, a job gets tokens only from file systems that the configuration names', () => {
  const named = ['hdfs://a1:8020/x', 'hdfs://archive:8020/x', 'hdfs://evil:8020/x', 'cat hdfs://evil/y'];
  const configuration = HadoopConfiguration.fromProperties({ ...SECURE, 'mapreduce.job.hdfs-servers': 'hdfs://archive:8020' });
  expect(fileSystemsIn(named, configuration)).toEqual(['hdfs://ns1', 'hdfs://archive:8020', 'hdfs://ns2']);
});

test.each([
  [{ data: { x: 'hdfs://evil/x' } }, 'hdfs://evil/x'],
  [{ checkpoint: { dir: 'webhdfs://a1:9871/x' } }, 'webhdfs://a1:9871/x'],
  [
    { tensorboard: { logdir: 'HDFS://a2:8021/x' }, roles: [{ env: { INPUT: 'swebhdfs://evil/x' } }] },
    'HDFS://a2:8021/x, swebhdfs://evil/x',
  ],
])('with Kerberos, a job may not use another file system (%j)', (job, uris) => {
  const configuration = HadoopConfiguration.fromProperties(SECURE);
  expect(() => refuseUnknownFileSystems(job as unknown as Job, configuration)).toThrow(`The job uses ${uris}, but`);
  expect(() => refuseUnknownFileSystems(job as unknown as Job, HadoopConfiguration.fromProperties(CLUSTER))).not.toThrow();
});

test('with Kerberos, a job may use named file systems, and other texts', () => {
  const job = {
    data: ['hdfs:///x', 'hdfs://ns1/x', 'hdfs://c:8020/x', 'webhdfs://a1:9870/x', 'viewfs://cluster/x', 's3://evil/x'],
    command: 'cat hdfs://x/y',
  };
  expect(() => refuseUnknownFileSystems(job as unknown as Job, HadoopConfiguration.fromProperties(SECURE))).not.toThrow();
});
