import { createServer, type Server } from 'node:http';
import { afterEach, expect, test } from 'vitest';
import { listening } from '../../testing/http-server.ts';
import { configurationOfResourceManager, propertiesOfDaemon, withoutDefaults } from './remote-configuration.ts';

let server: Server | undefined;
afterEach(() => void server?.close());

test("reads a cluster's configuration given only the address of its ResourceManager", async () => {
  server = createServer((request, response) => {
    expect(request.url).toBe('/conf');
    response.end(`<?xml version="1.0" encoding="UTF-8" standalone="no"?><configuration>
<property><name>fs.defaultFS</name><value>hdfs://nn:9000</value><final>false</final><source>core-site.xml</source></property>
<property><name>yarn.scheduler.minimum-allocation-mb</name><value>17</value><final>false</final><source>yarn-default.xml</source></property>
<property><name>yarn.resourcemanager.hostname</name><value>0.0.0.0</value><final>false</final><source>yarn-default.xml</source></property>
<property><name>yarn.resource-types</name><value>yarn.io/gpu</value><final>false</final><source>resource-types.xml</source></property>
</configuration>`);
  });
  const address = await listening(server);
  const configuration = await configurationOfResourceManager(address.replace('http://', ''));
  expect(configuration.resourceManagers).toEqual([address]);
  expect(configuration.schedulers).toEqual([{ host: '127.0.0.1', port: 8030 }]);
  expect(configuration.defaultFs).toBe('hdfs://nn:9000');
  expect(configuration.resourceTypes).toEqual(['yarn.io/gpu']);
  expect(configuration.minimumMemoryMb).toBe(1024);
});

test('reads the JSON that daemons prefer to write, without their default values', async () => {
  server = createServer((request, response) => {
    expect(request.headers.accept).toBe('application/json, application/xml');
    response.setHeader('Content-Type', 'application/json;charset=utf-8');
    // From a Hadoop 3.4.3 ResourceManager.
    response.end(
      '{"properties":[{"key":"ipc.server.tcpnodelay","value":"true","isFinal":false,"resource":"core-default.xml"},' +
        '{"key":"fs.defaultFS","value":"hdfs://nn:9000","isFinal":true,"resource":"core-site.xml"},' +
        '{"key":"dfs.nameservices","value":null,"isFinal":false,"resource":"programatically"}]}',
    );
  });
  const properties = await propertiesOfDaemon(new URL(await listening(server)));
  expect(properties).toEqual([
    { name: 'ipc.server.tcpnodelay', value: 'true', final: false, source: 'core-default.xml' },
    { name: 'fs.defaultFS', value: 'hdfs://nn:9000', final: true, source: 'core-site.xml' },
  ]);
  expect(withoutDefaults(properties)).toEqual({ 'fs.defaultFS': 'hdfs://nn:9000' });
});

test.each(['{"properties": [', '{"properties": [{"key": 1}]}'])('rejects other JSON (%s)', async (text) => {
  server = createServer((_, response) => void response.setHeader('Content-Type', 'application/json').end(text));
  await expect(propertiesOfDaemon(new URL(await listening(server)))).rejects.toMatchObject({ code: 'HADOOP_CONF_INVALID' });
});

test.each([
  [(_: unknown, response: import('node:http').ServerResponse) => void response.writeHead(404).end(), 'RM_UNREACHABLE', 'returned HTTP 404'],
  [
    (_: unknown, response: import('node:http').ServerResponse) => void response.end('<html></html>'),
    'HADOOP_CONF_INVALID',
    '/conf:1: the root element is <html>',
  ],
  [
    (_: unknown, response: import('node:http').ServerResponse) => void response.destroy(),
    'RM_UNREACHABLE',
    'No ResourceManager could be reached',
  ],
])('an address without a ResourceManager causes a specific error', async (answer, code, message) => {
  server = createServer(answer);
  const address = await listening(server);
  await expect(configurationOfResourceManager(address)).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
});

test('rejects a malformed address', async () => {
  await expect(configurationOfResourceManager('http://')).rejects.toMatchObject({ code: 'USAGE' });
});
