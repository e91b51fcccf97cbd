import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { AUTHORITIES } from '../../hadoop/configuration/authorities.ts';
import { readConfiguration } from './cluster.ts';

const GOLDEN = fileURLToPath(new URL('../../hadoop/golden/tls/', import.meta.url));
const AUTHORITY = (await readFile(join(GOLDEN, 'ca.pem'), 'utf8')).trim();
const xml = (properties: Readonly<Record<string, string>>): string =>
  `<configuration>${Object.entries(properties)
    .map(([name, value]) => `<property><name>${name}</name><value>${value}</value></property>`)
    .join('')}</configuration>`;

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tony-ts-authorities-test-'));
  await mkdir(join(folder, 'conf'));
  await writeFile(join(folder, 'conf', 'yarn-site.xml'), xml({ 'yarn.http.policy': 'HTTPS_ONLY', 'yarn.resourcemanager.hostname': 'rm' }));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const write = (name: string, text: string): Promise<void> => writeFile(join(folder, 'conf', name), text);
const authorities = async (environment: Record<string, string> = {}): Promise<string | undefined> =>
  (await readConfiguration({ env: { HADOOP_CONF_DIR: join(folder, 'conf'), ...environment } })).get(AUTHORITIES);
const trustStore = (password: string): string =>
  xml({ 'ssl.client.truststore.location': join(GOLDEN, 'truststore.jks'), 'ssl.client.truststore.password': password });

test('authorities come from the truststore, from tls.ca beside the site file, and from NODE_EXTRA_CA_CERTS, each once', async () => {
  expect(await authorities()).toBe('');
  expect(await authorities({ NODE_EXTRA_CA_CERTS: join(GOLDEN, 'ca.pem') })).toBe(AUTHORITY);
  await write('tony-site.yaml', 'tls: {ca: own.pem}\n');
  await cp(join(GOLDEN, 'ca.pem'), join(folder, 'conf', 'own.pem'));
  expect(await authorities()).toBe(AUTHORITY);
  await write('ssl-client.xml', trustStore('secret1'));
  expect(await authorities({ NODE_EXTRA_CA_CERTS: join(GOLDEN, 'ca.pem') })).toBe(AUTHORITY);
});

test('the password of a PKCS12 truststore can be in a credential provider', async () => {
  const store = fileURLToPath(new URL('../../hadoop/golden/credentials/protected.jceks', import.meta.url));
  await write(
    'ssl-client.xml',
    xml({
      'ssl.client.truststore.location': join(GOLDEN, 'truststore.p12'),
      'hadoop.security.credential.provider.path': `jceks://file${store}`,
      'hadoop.security.credstore.java-keystore-provider.password-file': 'store-password',
    }),
  );
  await write('store-password', 'pass-1\n');
  expect(await authorities()).toBe(AUTHORITY);
  await expect(authorities({ HADOOP_CREDSTORE_PASSWORD: 'other' })).rejects.toMatchObject({
    code: 'TRUST_STORE_UNREADABLE',
    message: expect.stringContaining('protected.jceks cannot be read: the password is wrong'),
    hint: expect.stringContaining('HADOOP_CREDSTORE_PASSWORD'),
  });
});

test('tls.ca replaces a truststore that cannot be read', async () => {
  await write('ssl-client.xml', trustStore('wrong'));
  await expect(authorities()).rejects.toMatchObject({ code: 'TRUST_STORE_UNREADABLE' });
  await write('tony-site.yaml', `tls: {ca: ${join(GOLDEN, 'ca.pem')}}\n`);
  expect(await authorities()).toBe(AUTHORITY);
  await write('tony-site.yaml', 'tls: {ca: none.pem}\n');
  await expect(authorities()).rejects.toMatchObject({ code: 'TRUST_STORE_UNREADABLE', message: expect.stringContaining('none.pem') });
});

test('a cluster without HTTPS needs no authorities', async () => {
  await write('yarn-site.xml', xml({ 'yarn.resourcemanager.hostname': 'rm' }));
  await write('ssl-client.xml', trustStore('wrong'));
  expect(await authorities({ NODE_EXTRA_CA_CERTS: join(GOLDEN, 'ca.pem') })).toBeUndefined();
});

test('the configuration for containers includes the authorities', async () => {
  await write('ssl-client.xml', trustStore('secret1'));
  const configuration = await readConfiguration({ env: { HADOOP_CONF_DIR: join(folder, 'conf') } });
  expect(configuration.freeze()).toMatchObject({ [AUTHORITIES]: AUTHORITY });
});

test('if HDFS offers HTTP and HTTPS, the client uses HTTPS if it has a readable truststore, and HTTP otherwise', async () => {
  const policy = async (environment: Record<string, string> = {}): Promise<string | undefined> =>
    (await readConfiguration({ env: { HADOOP_CONF_DIR: join(folder, 'conf'), ...environment } })).get('dfs.http.policy');
  await write('yarn-site.xml', xml({ 'yarn.resourcemanager.hostname': 'rm' }));
  await write('hdfs-site.xml', xml({ 'dfs.http.policy': 'HTTP_AND_HTTPS' }));
  expect(await policy()).toBe('HTTP_AND_HTTPS');
  expect(await policy({ NODE_EXTRA_CA_CERTS: join(GOLDEN, 'ca.pem') })).toBe('HTTP_AND_HTTPS');
  await write('ssl-client.xml', trustStore('wrong'));
  expect(await policy()).toBe('HTTP_AND_HTTPS');
  await write('ssl-client.xml', trustStore('secret1'));
  expect(await policy()).toBe('HTTPS_ONLY');
  await write('yarn-site.xml', xml({ 'yarn.http.policy': 'HTTPS_ONLY', 'yarn.resourcemanager.hostname': 'rm' }));
  await write('ssl-client.xml', trustStore('wrong'));
  await expect(policy()).rejects.toMatchObject({ code: 'TRUST_STORE_UNREADABLE' });
});
