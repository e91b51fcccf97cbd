import { createServer, type RequestListener } from 'node:http';
import type { Server } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { configurationOfNode } from './node-configuration.ts';
import { listening, nobody } from './testing/http-server.ts';

let server: Server | undefined;
afterEach(() => void server?.close());

const property = (name: string, value: string, source: string) =>
  `<property><name>${name}</name><value>${value}</value><final>false</final><source>${source}</source></property>`;
const OWN = `<configuration>
${property('fs.defaultFS', 'hdfs://nn:9000', 'core-site.xml')}
${property('yarn.resourcemanager.hostname', '0.0.0.0', 'yarn-default.xml')}
${property('yarn.resourcemanager.address', '0.0.0.0:8032', 'yarn-default.xml')}
</configuration>`;
/** What a user has written into a job by hand. */
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

function ask(address: string, timeoutMs = 5_000) {
  const { hostname, port } = new URL(address);
  return configurationOfNode({ host: hostname, port: Number(port) }, OTHER, timeoutMs);
}

test('the file system that a node goes by counts, and what it leaves unsaid is taken from elsewhere', async () => {
  const plain = createServer(answer(OWN));
  server = plain;
  const configuration = await ask(await listening(plain));
  expect(configuration?.defaultFs).toBe('hdfs://nn:9000');
  expect(configuration?.nameNodes('nn:9000')).toEqual(['http://nn:19870']);
  expect(configuration?.resourceManagers).toEqual(['http://rm:8088']);
});

test('of what a node says itself nothing is taken from elsewhere', async () => {
  const own = OWN.replace(
    '</configuration>',
    `${property('dfs.replication', '3', 'hdfs-site.xml')}${property('yarn.resourcemanager.webapp.address', 'own:1', 'yarn-site.xml')}</configuration>`,
  );
  const plain = createServer(answer(own));
  server = plain;
  const configuration = await ask(await listening(plain));
  expect(configuration?.nameNodes('nn:9000')).toEqual(['http://nn:9870']);
  expect(configuration?.resourceManagers).toEqual(['http://own:1']);
});

test.each<[string, RequestListener]>([
  ['asks who one is', (_, response) => void response.writeHead(401).end()],
  ['is no Hadoop daemon', answer('<html></html>')],
  ['has no default file system', answer('<configuration></configuration>')],
  ['is silent', () => {}],
])('a node that %s says nothing', async (_, listener) => {
  const plain = createServer(listener);
  server = plain;
  expect(await ask(await listening(plain), 300)).toBeNull();
  plain.closeAllConnections();
});

test('nor does a port on which nobody listens', async () => {
  expect(await ask(await nobody(createServer()))).toBeNull();
});
