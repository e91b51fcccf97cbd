// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these tests check Hadoop's own substitution
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { HadoopConfiguration, hadoopUser } from './configuration.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hadoop-conf-'));
});
afterEach(() => rm(folder, { recursive: true }));

const write = (name: string, properties: Record<string, string>, final = false): Promise<void> =>
  writeFile(
    join(folder, name),
    `<configuration>${Object.entries(properties)
      .map(([key, value]) => `<property><name>${key}</name><value>${value}</value><final>${final}</final></property>`)
      .join('\n')}</configuration>`,
  );
const from = HadoopConfiguration.fromProperties;

describe('reading a folder', () => {
  test('later files override earlier ones, except final properties', async () => {
    await write('core-site.xml', { a: 'core', b: 'core' }, true);
    await write('hdfs-site.xml', { c: 'hdfs' });
    await write('yarn-site.xml', { a: 'yarn', c: 'yarn' });
    const configuration = await HadoopConfiguration.fromEnvironment({ HADOOP_CONF_DIR: folder });
    expect([configuration.get('a'), configuration.get('b'), configuration.get('c'), configuration.get('d')]).toEqual([
      'core',
      'core',
      'yarn',
      undefined,
    ]);
  });

  test.each([
    [{}, 'HADOOP_CONF_DIR is not set'],
    [{ HADOOP_CONF_DIR: '/nowhere/at/all' }, '/nowhere/at/all, which is not an existing folder'],
    [{ HADOOP_HOME: '/nowhere/at/all' }, 'HADOOP_CONF_DIR is not set'],
  ])('the environment %j, which leads to no site file, fails with HADOOP_CONF_NOT_FOUND', async (environment, message) => {
    await expect(HadoopConfiguration.fromEnvironment(environment)).rejects.toMatchObject({
      code: 'HADOOP_CONF_NOT_FOUND',
      exitCode: 2,
      message: expect.stringContaining(message),
      hint: expect.stringContaining('HADOOP_CONF_DIR'),
    });
  });

  test('an error names the broken file and its line', async () => {
    await writeFile(join(folder, 'core-site.xml'), '<configuration>\n<property>\n');
    await expect(HadoopConfiguration.fromDirectory(folder)).rejects.toMatchObject({
      code: 'HADOOP_CONF_INVALID',
      message: expect.stringContaining(`${folder}/core-site.xml:3`),
    });
  });
});

describe('substitution', () => {
  test('resolves references to keys, nested keys, defaults, system properties and environment variables', async () => {
    await write('core-site.xml', {
      plain: '${host}:1',
      host: 'h',
      which: 'host',
      nested: '${${which}}',
      twice: '${host}${host}${host}',
      user: '${user.name}',
      env: '${env.CLUSTER}',
      unset: '${env.MISSING-x}',
      empty: '${env.EMPTY-x}|${env.EMPTY:-y}',
      unknown: '${no.such.key}/z',
      default: '${yarn.resourcemanager.hostname}',
    });
    const environment = { CLUSTER: 'blue', EMPTY: '' };
    const configuration = await HadoopConfiguration.fromDirectory(folder, environment);
    const values = Object.fromEntries(
      ['plain', 'nested', 'twice', 'env', 'unset', 'empty', 'unknown', 'default'].map((key) => [key, configuration.get(key)]),
    );
    expect(values).toEqual({
      plain: 'h:1',
      nested: 'h',
      twice: 'hhh',
      env: 'blue',
      unset: 'x',
      empty: '|y',
      unknown: '${no.such.key}/z',
      default: '0.0.0.0',
    });
    expect(configuration.get('user')).toBe(hadoopUser({}));
  });

  test('stops at a circular reference, and rejects more than 20 substitutions', () => {
    expect(from({ a: '${b}', b: '${a}' }).get('a')).toMatch(/^\$\{[ab]\}$/);
    const chain = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`k${index}`, `\${k${index + 1}}`]));
    expect(() => from({ ...chain, k30: 'end' }).get('k0')).toThrow('more than 20 substitutions');
  });
});

describe('values', () => {
  test.each([
    [undefined, 'auth'],
    ['authentication', 'auth'],
    ['integrity', 'auth-int'],
    ['privacy', 'auth-conf'],
    ['privacy,integrity', 'auth-int'],
    ['Privacy, authentication', 'auth'],
  ])('hadoop.rpc.protection %s requires at least %s', (value, expected) => {
    const configuration = HadoopConfiguration.fromProperties(value === undefined ? {} : { 'hadoop.rpc.protection': value });
    expect(configuration.minimumQop).toBe(expected);
  });

  test('rejects an unknown hadoop.rpc.protection', () => {
    const configuration = HadoopConfiguration.fromProperties({ 'hadoop.rpc.protection': 'private' });
    expect(() => configuration.minimumQop).toThrow(expect.objectContaining({ code: 'HADOOP_CONF_INVALID' }));
  });

  test('numbers, flags, lists and addresses are parsed and checked when they are read', () => {
    const configuration = from({ n: '12', bad: '1k', yes: 'TRUE', l: ' a, ,b ' });
    expect([configuration.number('n'), configuration.flag('yes'), configuration.flag('no'), configuration.list('l')]).toEqual([
      12,
      true,
      false,
      ['a', 'b'],
    ]);
    expect(() => configuration.number('bad')).toThrow('bad is "1k", but must be a whole number');
    expect(() => from({ 'yarn.resourcemanager.webapp.address': 'h:70000' }).resourceManagers).toThrow('must have the form host:port');
  });

  test("Hadoop's defaults apply to properties that no file sets", () => {
    const configuration = from({});
    expect(configuration.minimumMemoryMb).toBe(1024);
    expect(configuration.secure).toBe(false);
    expect(configuration.resourceTypes).toEqual([]);
  });
});

describe('addresses', () => {
  test('a cluster without HA has one ResourceManager', () => {
    expect(from({ 'yarn.resourcemanager.hostname': 'rm' }).resourceManagers).toEqual(['http://rm:8088']);
    expect(from({ 'yarn.resourcemanager.hostname': 'rm' }).schedulers).toEqual([{ host: 'rm', port: 8030 }]);
    expect(from({ 'yarn.resourcemanager.hostname': 'rm', 'yarn.http.policy': 'HTTPS_ONLY' }).resourceManagers).toEqual(['https://rm:8090']);
  });

  test('the web proxy is the ResourceManager, unless yarn.web-proxy.address is another address', () => {
    const proxies = (properties: Record<string, string>) => from({ 'yarn.resourcemanager.hostname': 'rm', ...properties }).webProxies;
    expect(proxies({})).toEqual(['http://rm:8088']);
    expect(proxies({ 'yarn.web-proxy.address': 'rm:8088' })).toEqual(['http://rm:8088']);
    expect(proxies({ 'yarn.web-proxy.address': 'proxy' })).toEqual(['http://proxy:9099']);
    expect(proxies({ 'yarn.web-proxy.address': 'proxy:9046', 'yarn.http.policy': 'HTTPS_ONLY' })).toEqual(['https://proxy:9046']);
    expect(from({ 'yarn.resourcemanager.hostname': 'rm', 'yarn.web-proxy.address': 'rm:8088' }).separateWebProxy).toBeNull();
  });

  test('an HA cluster lists all of its ResourceManagers', () => {
    const configuration = from({
      'yarn.resourcemanager.ha.enabled': 'true',
      'yarn.resourcemanager.ha.rm-ids': 'one,two',
      'yarn.resourcemanager.hostname.one': 'a',
      'yarn.resourcemanager.webapp.address.two': 'b:18088',
      'yarn.resourcemanager.scheduler.address.two': 'b:18030',
    });
    expect(configuration.resourceManagers).toEqual(['http://a:8088', 'http://b:18088']);
    expect(() => configuration.schedulers).not.toThrow();
    expect(configuration.schedulers).toEqual([
      { host: 'a', port: 8030 },
      { host: 'b', port: 18030 },
    ]);
    expect(() => from({ 'yarn.resourcemanager.ha.enabled': 'true' }).resourceManagers).toThrow('rm-ids is empty');
    expect(() => from({ 'yarn.resourcemanager.ha.enabled': 'true', 'yarn.resourcemanager.ha.rm-ids': 'x' }).resourceManagers).toThrow(
      'yarn.resourcemanager.hostname.x',
    );
  });
});

test('freezing keeps the properties that a job needs, with variables substituted, and drops secrets', async () => {
  await write('yarn-site.xml', {
    'yarn.resourcemanager.hostname': '${env.RM}',
    'yarn.resourcemanager.webapp.address': '${yarn.resourcemanager.hostname}:8088',
    'yarn.resource-types': 'yarn.io/gpu',
    'yarn.nodemanager.local-dirs': '/not/needed',
    'yarn.resourcemanager.keytab': '/etc/rm.keytab',
    'ipc.client.password': 'hunter2',
    'ipc.client.secret-key': 'hunter2',
    'fs.s3a.secret.key': 'hunter2',
    'hadoop.http.authentication.signature.secret': 'hunter2',
  });
  const frozen = (await HadoopConfiguration.fromDirectory(folder, { RM: 'rm1' })).freeze();
  expect(frozen).toEqual({
    'yarn.resource-types': 'yarn.io/gpu',
    'yarn.resourcemanager.hostname': 'rm1',
    'yarn.resourcemanager.webapp.address': 'rm1:8088',
  });
  expect(from(frozen).resourceManagers).toEqual(['http://rm1:8088']);
  expect(from(frozen).freeze()).toEqual(frozen);
});

test('the user name comes from HADOOP_USER_NAME, or else from the system', () => {
  expect(hadoopUser({ HADOOP_USER_NAME: 'alice' })).toBe('alice');
  expect(hadoopUser({})).not.toBe('');
});
