import { expect, test } from 'vitest';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { hdfsAccessOf } from './verdicts.ts';

test('the text names the servers or the gateway of each file system, up to a limit', () => {
  const access = (properties: Readonly<Record<string, string>>): string => hdfsAccessOf(HadoopConfiguration.fromProperties(properties));
  expect(access({ 'fs.defaultFS': 'hdfs://nn:8020' })).toBe('hdfs://nn:8020 by WebHDFS at http://nn:9870');
  expect(access({ 'fs.defaultFS': 'hdfs://nn:8020', 'tony.storage.gateway': 'https://knox/gateway/x' })).toBe(
    'hdfs://nn:8020 through the gateway https://knox/gateway/x',
  );
  const links = Array.from({ length: 9 }, (_, index) => [`fs.viewfs.mounttable.c.link./${index}`, `hdfs://n${index}:8020/`]);
  const table = access({
    'fs.defaultFS': 'viewfs://c',
    ...Object.fromEntries(links),
    'tony.storage.gateway.n1:8020': 'http://httpfs:14000',
  });
  expect(table).toMatch(/^hdfs:\/\/n0:8020 by WebHDFS at http:\/\/n0:9870; hdfs:\/\/n1:8020 through the gateway http:\/\/httpfs:14000; /);
  expect(table).toMatch(/; and 3 more$/);
  expect(access({})).toBe('');
});
