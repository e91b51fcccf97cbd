import { createServer, type Server } from 'node:http';
import { afterEach, expect, test } from 'vitest';
import { Secret } from '../../../platform/secret.ts';
import type { Token } from '../../rpc/credentials.ts';
import { SimpleLogin } from '../../security/login.ts';
import { FakeDaemon } from '../../testing/fake-daemon.ts';
import { listening } from '../../testing/http-server.ts';
import { HadoopConfiguration } from '../configuration.ts';
import { provenConfiguration } from './proven-configuration.ts';

const token = (password: string): Token => ({
  identifier: Buffer.from('attempt 1'),
  password: new Secret(Buffer.from(password)),
  kind: 'YARN_AM_RM_TOKEN',
  service: '',
});
const CONF = `<configuration>
<property><name>fs.defaultFS</name><value>hdfs://nn:9000</value><source>core-site.xml</source></property>
</configuration>`;

let daemon: FakeDaemon;
let web: Server;
let asked = 0;
afterEach(async () => {
  await daemon.stop();
  web.close();
});

/** Calls provenConfiguration. The fake ResourceManager accepts tokens with the password `known`. */
async function find(known: string, properties: (web: string) => Record<string, string> = () => ({})): Promise<HadoopConfiguration> {
  asked = 0;
  web = createServer((_, response) => {
    asked += 1;
    response.end(CONF);
  });
  daemon = await FakeDaemon.start({ answer: () => null, tokens: () => [token(known)] });
  const address = new URL(await listening(web)).host;
  const { host, port } = daemon.endpoint;
  const otherwise = {
    'fs.defaultFS': 'hdfs://mine:1',
    'yarn.resourcemanager.scheduler.address': `${host}:${port}`,
    'yarn.resourcemanager.webapp.address': address,
    ...properties(address),
  };
  return provenConfiguration({
    own: HadoopConfiguration.fromProperties(otherwise),
    otherwise,
    token: token('right'),
    login: () => new SimpleLogin(null),
    timeoutMs: 30_000,
  });
}

test("the configuration comes from the ResourceManager that knows the attempt's token, and not from the job", async () => {
  const found = await find('right');
  expect(found.defaultFs).toBe('hdfs://nn:9000');
  expect(asked).toBe(1);
});

test('a server that does not know the token receives no request for its configuration', async () => {
  await expect(find('wrong')).rejects.toMatchObject({ code: 'RM_UNREACHABLE' });
  expect(asked).toBe(0);
});

test('if two ResourceManagers share a host, only the one that proves its identity receives the request', async () => {
  const found = await find('right', (address) => ({
    'yarn.resourcemanager.ha.enabled': 'true',
    'yarn.resourcemanager.ha.rm-ids': 'standby,active',
    'yarn.resourcemanager.scheduler.address.standby': '127.0.0.1:1',
    'yarn.resourcemanager.webapp.address.standby': '127.0.0.1:1',
    'yarn.resourcemanager.scheduler.address.active': `127.0.0.1:${daemon.endpoint.port}`,
    'yarn.resourcemanager.webapp.address.active': address,
  }));
  expect(found.defaultFs).toBe('hdfs://nn:9000');
});

test('a web server on another host receives no request', async () => {
  const elsewhere = find('right', (address) => ({ 'yarn.resourcemanager.webapp.address': address.replace('127.0.0.1', 'localhost') }));
  await expect(elsewhere).rejects.toMatchObject({
    code: 'RM_UNREACHABLE',
    message: expect.stringContaining('does not name a ResourceManager web server'),
  });
  expect(asked).toBe(0);
});
