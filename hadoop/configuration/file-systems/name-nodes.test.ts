import { describe, expect, test } from 'vitest';
import { HadoopConfiguration } from '../configuration.ts';
import {
  isSameFileSystem,
  nameNodeEndpointsOf,
  nameNodesOf,
  parseFileSystem,
  rpcNameOf,
  tokenServicesAt,
  unknownNameservice,
} from './name-nodes.ts';

const from = HadoopConfiguration.fromProperties;
const NAMESERVICES = {
  'fs.defaultFS': 'hdfs://blue',
  'dfs.nameservices': 'blue,green',
  'dfs.ha.namenodes.blue': 'x,y',
  'dfs.namenode.rpc-address.blue.x': 'bx:8020',
  'dfs.namenode.rpc-address.blue.y': 'by:8020',
  'dfs.namenode.http-address.blue.x': '0.0.0.0:9870',
  'dfs.namenode.http-address.blue.y': 'by:50070',
  'dfs.namenode.https-address.blue.y': 'by:50470',
  'dfs.namenode.rpc-address.green': 'g:8020',
};
const federated = from(NAMESERVICES);

function named(uri: string): NonNullable<ReturnType<typeof parseFileSystem>> {
  const fileSystem = parseFileSystem(uri);
  if (fileSystem === null) {
    throw new Error(`${uri} is not a file system`);
  }
  return fileSystem;
}
const servers = (uri: string, configuration = federated): readonly string[] => nameNodesOf(configuration, named(uri));

test('names of file systems are URIs without a path', () => {
  expect(parseFileSystem('hdfs://nn:8020/')).toEqual({ scheme: 'hdfs', authority: 'nn:8020' });
  expect(parseFileSystem('SWEBHDFS://nn')).toEqual({ scheme: 'swebhdfs', authority: 'nn' });
  expect(['hdfs://nn/a', 'hdfs:///', 's3a://b', 'viewfs://c'].map(parseFileSystem)).toEqual([null, null, null, null]);
});

describe('web servers', () => {
  test('an address denotes one NameNode', () => {
    const one = from({ 'fs.defaultFS': 'hdfs://nn:9000/', 'dfs.namenode.http-address': '0.0.0.0:19870' });
    expect(one.defaultFs).toBe('hdfs://nn:9000');
    expect(servers('hdfs://nn:9000', one)).toEqual(['http://nn:19870']);
    // Without settings for another cluster's NameNode, its web port is the default port.
    expect(servers('hdfs://elsewhere:9000', one)).toEqual(['http://elsewhere:9870']);
    expect(servers('hdfs://elsewhere:9000', one.with({ 'dfs.http.policy': 'HTTPS_ONLY' }))).toEqual(['https://elsewhere:9871']);
  });

  test('a nameservice lists its NameNodes', () => {
    expect(servers('hdfs://blue')).toEqual(['http://bx:9870', 'http://by:50070']);
    expect(servers('hdfs://by:8020')).toEqual(['http://by:50070']);
    expect(servers('hdfs://by')).toEqual(['http://by:50070']);
    expect(servers('hdfs://green')).toEqual(['http://g:9870']);
    expect(servers('hdfs://blue', federated.with({ 'dfs.http.policy': 'HTTPS_ONLY' }))).toEqual(['https://bx:9871', 'https://by:50470']);
  });

  test('webhdfs:// is HTTP and swebhdfs:// is HTTPS, independently of the policy', () => {
    const secure = federated.with({ 'dfs.http.policy': 'HTTPS_ONLY' });
    expect(servers('webhdfs://blue', secure)).toEqual(['http://bx:9870', 'http://by:50070']);
    expect(servers('swebhdfs://blue')).toEqual(['https://bx:9871', 'https://by:50470']);
    expect(servers('webhdfs://other:14000')).toEqual(['http://other:14000']);
    expect(servers('webhdfs://other')).toEqual(['http://other:9870']);
    expect(servers('swebhdfs://other')).toEqual(['https://other:9871']);
    expect(servers('webhdfs://[::1]:14000')).toEqual(['http://[::1]:14000']);
  });
});

test('RPC addresses are known for hdfs://, and for the web addresses of the configuration', () => {
  const endpoints = (uri: string, configuration = federated) => nameNodeEndpointsOf(configuration, named(uri));
  expect(endpoints('hdfs://blue')).toEqual([
    { host: 'bx', port: 8020 },
    { host: 'by', port: 8020 },
  ]);
  expect(endpoints('hdfs://other:9')).toEqual([{ host: 'other', port: 9 }]);
  expect(endpoints('webhdfs://by:50070')).toEqual([{ host: 'by', port: 8020 }]);
  expect(endpoints('webhdfs://other:50070')).toEqual([]);
  expect(() => endpoints('hdfs://ns', from({ 'dfs.nameservices': 'ns' }))).toThrow('dfs.namenode.rpc-address.ns is not set');
});

test('daemons identify a file system by its nameservice, or by an RPC address', () => {
  expect(rpcNameOf(federated, named('webhdfs://by:50070'))).toEqual({ scheme: 'hdfs', authority: 'blue' });
  expect(rpcNameOf(federated, named('hdfs://bx:8020'))).toEqual({ scheme: 'hdfs', authority: 'blue' });
  expect(rpcNameOf(federated, named('webhdfs://other:1'))).toEqual({ scheme: 'webhdfs', authority: 'other:1' });
  const single = from({
    'fs.defaultFS': 'webhdfs://nn:9870',
    'dfs.namenode.http-address': 'nn:9870',
    'dfs.namenode.rpc-address': 'nn:8020',
  });
  expect(rpcNameOf(single, named('webhdfs://nn'))).toEqual({ scheme: 'hdfs', authority: 'nn:8020' });
});

test('several names can denote one file system', () => {
  const same = (one: string, other: string) => isSameFileSystem(federated, named(one), named(other));
  expect(same('hdfs://blue', 'webhdfs://by:50070')).toBe(true);
  expect(same('hdfs://nn', 'hdfs://NN:8020')).toBe(true);
  expect(same('hdfs://blue', 'hdfs://green')).toBe(false);
  expect(same('webhdfs://nn', 'swebhdfs://nn')).toBe(false);
});

test('the error for an unknown nameservice lists the known ones', () => {
  const doubt = (uri: string, configuration = federated) => unknownNameservice(configuration, named(uri));
  expect(doubt('hdfs://red')).toBe('red is a host, or a nameservice that dfs.nameservices does not list (known nameservices: blue, green)');
  expect(doubt('hdfs://red', from({}))).toContain('the configuration has no dfs.nameservices');
  expect([doubt('hdfs://blue'), doubt('hdfs://red:8020'), doubt('hdfs://by')]).toEqual([null, null, null]);
});

test("the service of a NameNode's tokens is found by its web address", () => {
  expect(tokenServicesAt(federated, 'http://by:50070')).toEqual(['ha-hdfs:blue']);
  expect(tokenServicesAt(federated, 'http://g:9870')).toEqual(['ha-hdfs:green']);
  expect(tokenServicesAt(federated, 'http://other:9870')).toEqual([]);
  expect(tokenServicesAt(from({ 'fs.defaultFS': 'hdfs://nn:9000' }), 'http://nn:9870')).toEqual(['nn:9000']);
});
