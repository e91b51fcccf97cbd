import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Secret } from '../../platform/secret.ts';
import { encodeCredentials, encodeTokenUrl, type Token } from '../rpc/credentials.ts';
import { KnownServers } from './known-servers.ts';
import { TokenLogin, tokenFile } from './token-login.ts';

const token = (kind: string, service: string, password = 'p'): Token => ({
  identifier: Buffer.from(service),
  password: new Secret(Buffer.from(password)),
  kind,
  service,
});
const HDFS = token('HDFS_DELEGATION_TOKEN', '127.0.0.1:8020');
const OTHER_HDFS = token('HDFS_DELEGATION_TOKEN', 'ha-hdfs:archive');
const YARN = token('RM_DELEGATION_TOKEN', '127.0.0.1:8032');
const SERVERS = new KnownServers(
  ['rm:8088', 'localhost:9870', 'localhost:14000', 'g1:9870', 'b1:9870', 'other:9870'].map((address) => `http://${address}`),
);
const WEB_HDFS = new URL('http://localhost:9870/webhdfs/v1/a?op=OPEN');

let file: string;
beforeEach(async () => {
  file = join(await mkdtemp(join(tmpdir(), 'tony-ts-tokens-')), 'tokens');
});
afterEach(() => rm(join(file, '..'), { recursive: true, force: true }));

async function loginWith(...tokens: Token[]): Promise<TokenLogin> {
  await writeFile(file, encodeCredentials({ tokens: tokens.map((each) => ({ alias: each.service, token: each })), secrets: new Map() }));
  return new TokenLogin(file, SERVERS, ['http://rm:8088'], 'alice');
}

test('each service receives its own token, and other servers receive none', async () => {
  const login = await loginWith(HDFS, YARN);
  expect(await login.identify(WEB_HDFS)).toEqual({ query: { delegation: encodeTokenUrl(HDFS) }, headers: {} });
  expect(await login.identify(new URL('http://rm:8088/ws/v1/cluster/apps'))).toEqual({
    query: {},
    headers: { 'X-Hadoop-Delegation-Token': encodeTokenUrl(YARN) },
  });
  expect(await login.identify(new URL('http://node:8042/ws/v1/node/info'))).toEqual({ query: {}, headers: {} });
});

test.each(['http://evil:9870', 'http://localhost:9871', 'https://localhost:9870'])(
  '%s, which the configuration does not name, gets no token',
  async (server) => {
    const login = await loginWith(HDFS, YARN);
    await expect(login.identify(new URL(`${server}/webhdfs/v1/a?op=OPEN`))).rejects.toMatchObject({ code: 'SERVER_DENIED' });
    expect(await login.identify(new URL(`${server}/ws/v1/cluster/apps`))).toEqual({ query: {}, headers: {} });
  },
);

test('a ResourceManager that refuses the name alone needs a token that the file does not contain', async () => {
  const login = await loginWith(HDFS);
  const url = new URL('http://rm:8088/ws/v1/cluster/apps');
  const identity = await login.identify(url);
  expect(identity.query).toEqual({ 'user.name': 'alice' });
  expect(() => login.refused(url, identity)).toThrow(/no delegation token for the ResourceManager/);
  expect(login.refused(new URL('http://node:8042/ws/v1/node/info'), identity)).toBe(false);
});

test('a keytab takes precedence over the tokens of a container', () => {
  expect(tokenFile({ HADOOP_TOKEN_FILE_LOCATION: 'tokens' })).toBe('tokens');
  expect(tokenFile({ HADOOP_TOKEN_FILE_LOCATION: 'tokens', TONY_KEYTAB: 'keytab' })).toBeNull();
  expect(tokenFile({})).toBeNull();
});

test('a job gets the tokens for HDFS, the ResourceManager and the key server, and does not cancel them', async () => {
  const login = await loginWith(HDFS, YARN, token('kms-dt', 'kms://https@keys:9600/kms'), token('YARN_AM_RM_TOKEN', ''));
  expect((await login.jobTokens()).map(({ kind }) => kind)).toEqual(['HDFS_DELEGATION_TOKEN', 'RM_DELEGATION_TOKEN', 'kms-dt']);
  expect(login.keepsTokens).toBe(true);
});

test.each([
  ['rm1,rm2', '127.0.0.1:8032,127.0.0.2:8032'],
  ['cluster', '127.0.0.1:8032,127.0.0.2:8032'],
  ['10.0.0.7:8032', '10.0.0.7:8032'],
])('a job gets a ResourceManager token for %s with the service %s, which the ResourceManager can renew', async (named, service) => {
  const of = token('RM_DELEGATION_TOKEN', named);
  await loginWith(HDFS, of);
  const endpoints = ['127.0.0.1', '127.0.0.2'].map((host) => ({ host, port: 8032 }));
  const login = new TokenLogin(file, SERVERS, ['http://rm:8088'], 'alice', () => [], endpoints);
  expect((await login.jobTokens()).map((each) => each.service)).toEqual(['127.0.0.1:8020', service]);
});

test('the service selects one of several tokens of HDFS', async () => {
  const login = await loginWith(OTHER_HDFS, HDFS);
  expect((await login.identify(WEB_HDFS)).query).toEqual({ delegation: encodeTokenUrl(HDFS) });
  expect((await login.rpcToken({ fileSystem: 'hdfs://archive' })).service).toBe('ha-hdfs:archive');
});

test('the configuration selects the token for a NameNode if there are several nameservices', async () => {
  const federated = [token('HDFS_DELEGATION_TOKEN', 'ha-hdfs:blue'), token('HDFS_DELEGATION_TOKEN', 'ha-hdfs:green'), HDFS];
  await loginWith(...federated);
  const services: Readonly<Record<string, string>> = { 'http://g1:9870': 'ha-hdfs:green', 'http://b1:9870': 'ha-hdfs:blue' };
  const login = new TokenLogin(file, SERVERS, [], 'alice', (origin) =>
    origin in services ? [services[origin] ?? ''] : ['localhost:8020'],
  );
  const serviceAt = async (origin: string): Promise<unknown> => (await login.identify(new URL(`${origin}/webhdfs/v1/`))).query.delegation;
  expect(await serviceAt('http://g1:9870')).toBe(encodeTokenUrl(federated[1] as Token));
  expect(await serviceAt('http://b1:9870')).toBe(encodeTokenUrl(federated[0] as Token));
  expect(await serviceAt('http://other:9870')).toBe(encodeTokenUrl(HDFS));
});

test('a gateway on the host of a NameNode receives its own token', async () => {
  const ofGateway = token('WEBHDFS delegation', '127.0.0.1:14000');
  await loginWith(HDFS, ofGateway);
  const login = new TokenLogin(file, SERVERS, [], 'alice', (origin) => (origin === WEB_HDFS.origin ? ['localhost:8020'] : []));
  const gateway = new URL('http://localhost:14000/webhdfs/v1/a?op=OPEN');
  expect((await login.identify(gateway)).query).toEqual({ delegation: encodeTokenUrl(ofGateway) });
  expect((await login.identify(WEB_HDFS)).query).toEqual({ delegation: encodeTokenUrl(HDFS) });
});

test('a ResourceManager that does not require a login receives the user name', async () => {
  const login = await loginWith(HDFS);
  expect(await login.identify(new URL('http://rm:8088/ws/v1/cluster/apps'))).toEqual({ query: { 'user.name': 'alice' }, headers: {} });
  await expect(login.rpcToken('resource-manager')).rejects.toMatchObject({ code: 'TOKEN_NOT_FOUND' });
});

test('a changed file takes effect immediately', async () => {
  const login = await loginWith(HDFS);
  await login.identify(WEB_HDFS);
  const renewed = token('HDFS_DELEGATION_TOKEN', '127.0.0.1:8020', 'a longer password');
  await loginWith(renewed);
  expect((await login.identify(WEB_HDFS)).query).toEqual({ delegation: encodeTokenUrl(renewed) });
});

test('the error for a missing token or file contains no secret', async () => {
  const login = await loginWith(YARN);
  await expect(login.identify(WEB_HDFS)).rejects.toMatchObject({ code: 'TOKEN_NOT_FOUND', message: expect.stringContaining('for HDFS') });
  await writeFile(file, 'p');
  await expect(login.identify(WEB_HDFS)).rejects.toMatchObject({
    code: 'TOKEN_NOT_FOUND',
    message: `The delegation tokens in ${file} cannot be read: The credentials file does not begin with HDTS.`,
  });
  await rm(file);
  await expect(login.identify(WEB_HDFS)).rejects.toMatchObject({ code: 'TOKEN_NOT_FOUND', message: expect.stringContaining(file) });
});
