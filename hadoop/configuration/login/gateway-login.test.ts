import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { encodeCredentials } from '../../rpc/credentials.ts';
import { SimpleLogin } from '../../security/login.ts';
import { HadoopConfiguration } from '../configuration.ts';
import { gatewayProperties } from '../file-systems/gateway.ts';
import { GATEWAY_CREDENTIALS, gatewayLogin, gatewayTokens } from './gateway-login.ts';

const KNOX = 'https://knox:8443/gateway/default';
const URL_OF_FILE = new URL(`${KNOX}/webhdfs/v1/file?op=OPEN`);
const BASIC = { query: {}, headers: { Authorization: `Basic ${Buffer.from('alice:pass:word').toString('base64')}` } };
let folder: string;
let file: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tony-ts-gateway-test-'));
  file = join(folder, 'knox');
  await writeFile(file, 'alice:pass:word\n', { mode: 0o600 });
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const configured = (gateway = KNOX) =>
  HadoopConfiguration.fromProperties({ 'fs.defaultFS': 'hdfs://ns1', ...gatewayProperties(gateway), [GATEWAY_CREDENTIALS]: file });

test('containers receive the credentials as a token, and the gateway receives them as Basic authentication', async () => {
  const client = configured();
  expect(await gatewayLogin(client, KNOX, new SimpleLogin('alice'), {}).identify(URL_OF_FILE)).toEqual(BASIC);
  await expect(
    gatewayLogin(client, KNOX, new SimpleLogin('alice'), {}).identify(new URL(URL_OF_FILE.href.replace('8443', '8444'))),
  ).rejects.toMatchObject({ code: 'SERVER_DENIED' });
  const tokens = await gatewayTokens(client);
  expect(JSON.stringify(tokens)).not.toContain('pass:');
  const frozen = client.freeze();
  expect(JSON.stringify(frozen)).not.toContain('knox"');
  const inContainer = join(folder, 'tokens');
  await writeFile(inContainer, encodeCredentials({ tokens: tokens.map((token) => ({ alias: 'x', token })), secrets: new Map() }));
  const environment = { HADOOP_TOKEN_FILE_LOCATION: inContainer };
  const inside = HadoopConfiguration.fromProperties(frozen);
  expect(await gatewayLogin(inside, KNOX, new SimpleLogin('alice'), environment).identify(URL_OF_FILE)).toEqual(BASIC);
  const other = await gatewayLogin(inside, 'https://other', new SimpleLogin('alice'), environment).identify(URL_OF_FILE);
  expect(other).toEqual({ query: { 'user.name': 'alice' }, headers: {} });
});

test('without credentials, users authenticate to a gateway in the same way as to a NameNode', async () => {
  const configuration = HadoopConfiguration.fromProperties(gatewayProperties(KNOX));
  expect(await gatewayTokens(configuration)).toEqual([]);
  expect((await gatewayLogin(configuration, KNOX, new SimpleLogin('alice'), {}).identify(URL_OF_FILE)).query).toEqual({
    'user.name': 'alice',
  });
});

test.each<[string, () => Promise<unknown>, string, string]>([
  ['a file that others can read', () => chmod(file, 0o640), KNOX, 'other users can read the file (mode 640)'],
  ['a missing file', () => rm(file), KNOX, 'cannot be used'],
  ['a file without a password', () => writeFile(file, 'secret'), KNOX, 'one line of the form USER:PASSWORD'],
  ['a file with two lines', () => writeFile(file, 'a:secret\nb'), KNOX, 'one line of the form USER:PASSWORD'],
  ['a large file', () => writeFile(file, `a:${'x'.repeat(5000)}`), KNOX, 'too large'],
  ['a gateway without HTTPS', async () => {}, 'http://knox:14000', 'does not use HTTPS'],
])('%s is refused, and the error does not quote it', async (_what, change, gateway, message) => {
  await change();
  const error = await gatewayLogin(configured(gateway), gateway, new SimpleLogin('alice'), {})
    .identify(URL_OF_FILE)
    .catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'GATEWAY_CREDENTIALS_INVALID', message: expect.stringContaining(message) });
  expect((error as Error).message).not.toContain('secret');
});
