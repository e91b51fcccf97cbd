import { createServer, type RequestListener } from 'node:http';
import type { Server } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { CLOSED_URL } from '../../testing/closed-port.ts';
import { listening } from '../../testing/http-server.ts';
import type { HadoopConfiguration } from '../configuration.ts';
import { nameNodeEndpointsOf, nameNodesOf } from '../file-systems/name-nodes.ts';
import { configurationOfNode } from './node-configuration.ts';

let server: Server | undefined;
afterEach(() => void server?.close());

const nameNodes = (configuration: HadoopConfiguration | null, authority: string): readonly string[] | null =>
  configuration && nameNodesOf(configuration, { scheme: 'hdfs', authority });
const property = (name: string, value: string, source: string) =>
  `<property><name>${name}</name><value>${value}</value><final>false</final><source>${source}</source></property>`;
const OWN = `<configuration>
${property('fs.defaultFS', 'hdfs://nn:9000', 'core-site.xml')}
${property('yarn.resourcemanager.hostname', '0.0.0.0', 'yarn-default.xml')}
${property('yarn.resourcemanager.address', '0.0.0.0:8032', 'yarn-default.xml')}
</configuration>`;
const OTHER = {
  'fs.defaultFS': 'hdfs://mine:1',
  'dfs.namenode.rpc-address': 'nn:9000',
  'dfs.namenode.http-address': 'nn:19870',
  'yarn.resourcemanager.hostname': 'rm',
};

const answer =
  (text: string): RequestListener =>
  (_, response) =>
    void response.end(text);

function ask(address: string, timeoutMs = 5_000, otherwise: Readonly<Record<string, string>> = OTHER) {
  const { hostname, port } = new URL(address);
  return configurationOfNode({ host: hostname, port: Number(port) }, otherwise, timeoutMs, async () => {
    throw new Error('a login is required');
  });
}

test("the node's default file system takes precedence; other sources supply the properties that the node lacks", async () => {
  const plain = createServer(answer(OWN));
  server = plain;
  const configuration = await ask(await listening(plain));
  expect(configuration?.defaultFs).toBe('hdfs://nn:9000');
  expect(nameNodes(configuration, 'nn:9000')).toEqual(['http://nn:19870']);
  expect(configuration?.resourceManagers).toEqual(['http://rm:8088']);
});

test.each<[string, Readonly<Record<string, string>>]>([
  ['another web server for the NameNode', { 'dfs.namenode.http-address': 'evil:1' }],
  ['another NameNode with a web server on 0.0.0.0', { 'dfs.namenode.rpc-address': 'evil:9000', 'dfs.namenode.http-address': '0.0.0.0:1' }],
  [
    'a nameservice with the same RPC address',
    { 'dfs.nameservices': 'mine', 'dfs.namenode.rpc-address.mine': 'nn:9000', 'dfs.namenode.http-address.mine': 'evil:1' },
  ],
  ['a nameservice with the same name', { 'dfs.nameservices': 'nn:9000', 'dfs.ha.namenodes.nn:9000': 'evil' }],
  ['an invalid address', { 'dfs.namenode.http-address': 'nn:x' }],
])('other sources cannot redirect clients from the NameNode that a node names: %s', async (_, otherwise) => {
  const plain = createServer(answer(OWN));
  server = plain;
  const configuration = await ask(await listening(plain), 5_000, otherwise);
  expect(nameNodes(configuration, 'nn:9000')).toEqual(['http://nn:9870']);
  expect(configuration && nameNodeEndpointsOf(configuration, { scheme: 'hdfs', authority: 'nn:9000' })).toEqual([
    { host: 'nn', port: 9000 },
  ]);
});

test("other sources supply the port of a NameNode's HTTPS server", async () => {
  const plain = createServer(answer(OWN));
  server = plain;
  const otherwise = { 'dfs.http.policy': 'HTTPS_ONLY', 'dfs.namenode.https-address': 'NN:19871' };
  expect(nameNodes(await ask(await listening(plain), 5_000, otherwise), 'nn:9000')).toEqual(['https://NN:19871']);
});

test('other sources supply the NameNodes of a nameservice that a node does not describe', async () => {
  const plain = createServer(answer(OWN.replace('hdfs://nn:9000', 'hdfs://ns')));
  server = plain;
  const otherwise = { 'dfs.nameservices': 'ns', 'dfs.ha.namenodes.ns': 'a', 'dfs.namenode.http-address.ns.a': 'one:1' };
  expect(nameNodes(await ask(await listening(plain), 5_000, otherwise), 'ns')).toEqual(['http://one:1']);
});

test.each(['viewfs://c', 'webhdfs://nn:9870'])('other sources supply neither servers nor gateways of %s', async (defaultFs) => {
  const plain = createServer(answer(OWN.replace('hdfs://nn:9000', defaultFs)));
  server = plain;
  const evil = { 'dfs.nameservices': 'ns', 'dfs.namenode.http-address.ns': 'evil:1', 'tony.storage.gateway': 'http://evil:1' };
  const configuration = await ask(await listening(plain), 5_000, { ...evil, 'fs.viewfs.mounttable.c.linkFallback': 'hdfs://evil/' });
  expect(configuration?.defaultFs).toBe(defaultFs);
  expect(JSON.stringify(configuration?.freeze())).not.toContain('evil');
});

test('the ResourceManager runs on the host at which the node registers', async () => {
  const tracker = property('yarn.resourcemanager.resource-tracker.address', 'rm1:8031', 'yarn-site.xml');
  const plain = createServer(answer(OWN.replace('</configuration>', `${tracker}</configuration>`)));
  server = plain;
  const address = await listening(plain);
  const evil = { 'yarn.resourcemanager.hostname': 'evil', 'yarn.resourcemanager.webapp.address': 'evil:1' };
  expect((await ask(address, 5_000, evil))?.resourceManagers).toEqual(['http://rm1:8088']);
  expect((await ask(address, 5_000, { 'yarn.resourcemanager.webapp.address': 'rm1:18088' }))?.resourceManagers).toEqual([
    'http://rm1:18088',
  ]);
});

test("a node whose HDFS offers HTTP and HTTPS uses the job's choice of HTTPS", async () => {
  const own = OWN.replace('</configuration>', `${property('dfs.http.policy', 'HTTP_AND_HTTPS', 'hdfs-site.xml')}</configuration>`);
  const plain = createServer(answer(own));
  server = plain;
  const address = await listening(plain);
  expect((await ask(address))?.get('dfs.http.policy')).toBe('HTTP_AND_HTTPS');
  expect((await ask(address, 5_000, { 'dfs.http.policy': 'HTTPS_ONLY' }))?.get('dfs.http.policy')).toBe('HTTPS_ONLY');
});

test('the properties that a node sets take precedence over all other sources', async () => {
  const own = OWN.replace(
    '</configuration>',
    `${property('dfs.replication', '3', 'hdfs-site.xml')}${property('yarn.resourcemanager.webapp.address', 'own:1', 'yarn-site.xml')}</configuration>`,
  );
  const plain = createServer(answer(own));
  server = plain;
  const configuration = await ask(await listening(plain));
  expect(nameNodes(configuration, 'nn:9000')).toEqual(['http://nn:9870']);
  expect(configuration?.resourceManagers).toEqual(['http://own:1']);
});

test.each<[string, RequestListener]>([
  ['is no Hadoop daemon', answer('<html></html>')],
  ['has no default file system', answer('<configuration></configuration>')],
  ['does not answer', () => {}],
])('a node that %s supplies no configuration', async (_, listener) => {
  const plain = createServer(listener);
  server = plain;
  expect(await ask(await listening(plain), 300)).toBeNull();
  plain.closeAllConnections();
});

test('if a node requires a login, the other trustworthy source supplies the configuration, and the job never does', async () => {
  const closed = createServer((_, response) => void response.writeHead(401).end());
  server = closed;
  await expect(ask(await listening(closed))).rejects.toThrow('a login is required');
});

test('a closed port supplies no configuration', async () => {
  expect(await ask(CLOSED_URL)).toBeNull();
});
