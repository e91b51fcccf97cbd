import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { type S3Sources, s3Finder } from './find-s3-connection.ts';
import { decodeJobConnections, encodeJobConnections, type S3Connection } from './s3-connection.ts';

let home: string;
beforeAll(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'aws-'));
  const credentials = [
    '# comment',
    '[default]',
    'aws_access_key_id = DEFAULT',
    'aws_secret_access_key=default/secret+key==',
    '[ work ]',
    'aws_access_key_id = WORK ; comment',
    'aws_secret_access_key = work-secret',
    'aws_session_token = work-token',
    '[broken]',
    'aws_access_key_id = ONLY',
  ];
  await writeFile(path.join(home, 'credentials'), credentials.join('\r\n'));
  await writeFile(path.join(home, 'config'), '[profile work]\nregion = eu-west-3\ns3 =\n  region = nested\n');
});
afterAll(() => rm(home, { recursive: true }));

const files = () => ({ AWS_SHARED_CREDENTIALS_FILE: path.join(home, 'credentials'), AWS_CONFIG_FILE: path.join(home, 'config') });
const noFiles = { AWS_SHARED_CREDENTIALS_FILE: '/nonexistent/a', AWS_CONFIG_FILE: '/nonexistent/b' };
const KEYS = { AWS_ACCESS_KEY_ID: 'ENV', AWS_SECRET_ACCESS_KEY: 'env-secret' };
const hadoop = (properties: Record<string, string>) => ({
  configuration: HadoopConfiguration.fromProperties(properties),
  readHdfs: async () => null,
});
const findS3Connection = (environment: S3Sources['environment'], configured: S3Sources['hadoop'], bucket = 'data') =>
  s3Finder({ environment, hadoop: configured })(bucket);
const DEFAULT_STORE = fileURLToPath(new URL('../../hadoop/golden/credentials/default.jceks', import.meta.url));
const HADOOP_KEYS = { 'fs.s3a.access.key': 'HADOOP', 'fs.s3a.secret.key': 'hadoop-secret' };

function opened({ secretAccessKey, sessionToken, ...rest }: S3Connection): object {
  const text = (secret: { reveal(): Uint8Array } | null) => secret && Buffer.from(secret.reveal()).toString();
  return { ...rest, secretAccessKey: text(secretAccessKey), sessionToken: text(sessionToken) };
}

describe('the access key', () => {
  test.each([
    ['the environment', () => ({ ...files(), ...KEYS, AWS_PROFILE: 'work' }), HADOOP_KEYS, 'ENV', 'env-secret'],
    ['the named profile', () => ({ ...files(), AWS_PROFILE: 'work' }), HADOOP_KEYS, 'WORK', 'work-secret'],
    ['Hadoop', () => files(), HADOOP_KEYS, 'HADOOP', 'hadoop-secret'],
    ['the default profile', () => files(), {}, 'DEFAULT', 'default/secret+key=='],
  ])('the access key comes from %s', async (_, environment, properties, accessKeyId, secretAccessKey) => {
    expect(opened(await findS3Connection(environment(), hadoop(properties)))).toMatchObject({ accessKeyId, secretAccessKey });
  });

  test("an access key in a credential provider overrides one in Hadoop's properties", async () => {
    const provider = { ...HADOOP_KEYS, 'fs.s3a.security.credential.provider.path': `localjceks://file${DEFAULT_STORE}` };
    const found = await findS3Connection(noFiles, hadoop(provider));
    expect(opened(found)).toMatchObject({ accessKeyId: 'AKIAEXAMPLE', secretAccessKey: 'sécret/key+1' });
    await expect(findS3Connection({ ...noFiles, HADOOP_CREDSTORE_PASSWORD: 'other' }, hadoop(provider))).rejects.toMatchObject({
      code: 'S3_CREDENTIALS_NOT_FOUND',
      message: expect.stringMatching(/default\.jceks cannot be read: the password is wrong/),
    });
  });

  test('the access key of a bucket overrides the general one, even in credential providers, and excludes the general session token', async () => {
    const properties = {
      ...HADOOP_KEYS,
      'fs.s3a.session.token': 'general',
      'fs.s3a.endpoint': 'general',
      'fs.s3a.bucket.own.access.key': 'OWN',
      'fs.s3a.bucket.own.fs.s3a.secret.key': 'own-secret',
      'fs.s3a.bucket.own.endpoint': 'http://own:9000',
      'fs.s3a.bucket.stored.security.credential.provider.path': `jceks://file${DEFAULT_STORE}`,
    };
    const find = async (bucket: string) => opened(await findS3Connection(noFiles, hadoop(properties), bucket));
    const own = { accessKeyId: 'OWN', secretAccessKey: 'own-secret', sessionToken: null, endpoint: 'http://own:9000' };
    expect(await find('own')).toMatchObject(own);
    expect(await find('stored')).toMatchObject({ accessKeyId: 'AKIAEXAMPLE', sessionToken: 'general' });
    const general = { accessKeyId: 'HADOOP', sessionToken: 'general', endpoint: 'https://general' };
    expect(await find('other')).toMatchObject(general);
    expect(await find('')).toMatchObject(general);
  });

  test.each([
    ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'],
    ['AWS_SECRET_ACCESS_KEY', 'AWS_ACCESS_KEY_ID'],
  ])('%s without %s is reported by name', async (set, unset) => {
    const environment = { [set]: 'x', HOME: '/nonexistent' };
    await expect(s3Finder({ environment, hadoop: null })('b')).rejects.toMatchObject({
      message: `${set} is set, but ${unset} is not.`,
      hint: `Set ${unset} as well.`,
    });
  });

  test('an access key is never printed, and can be encoded and decoded', async () => {
    const connection = await findS3Connection({ ...files(), AWS_PROFILE: 'work' }, null);
    expect(JSON.stringify(connection)).not.toContain('work-secret');
    expect(connection.region).toBe('eu-west-3');
    const others = { ...connection, region: 'elsewhere', sessionToken: null };
    const again = decodeJobConnections(encodeJobConnections({ buckets: { work: connection }, others }));
    expect(opened(await again('work'))).toEqual(opened(connection));
    expect(opened(await again('work'))).toMatchObject({ sessionToken: 'work-token' });
    expect(opened(await again('constructor'))).toEqual(opened(others));
    const single = decodeJobConnections(encodeJobConnections({ buckets: { work: connection }, others: null }));
    await expect(single('other')).rejects.toMatchObject({ code: 'S3_CREDENTIALS_NOT_FOUND', hint: expect.stringContaining('s3://other/') });
  });

  test.each([
    ['nothing', {}, {}, /environment, Hadoop's properties or the default profile/, /AWS_ACCESS_KEY_ID/],
    ['an incomplete profile', { AWS_PROFILE: 'broken' }, {}, /the profile broken/, /AWS_PROFILE/],
    ['a provider class', noFiles, { 'fs.s3a.aws.credentials.provider': 'a.b.Instance' }, /a\.b\.Instance/, /AWS_SESSION_TOKEN/],
  ])('a missing access key is reported with %s', async (_, environment, properties, message, hint) => {
    const finding = findS3Connection({ ...noFiles, ...environment }, hadoop(properties));
    await expect(finding).rejects.toMatchObject({
      code: 'S3_CREDENTIALS_NOT_FOUND',
      message: expect.stringMatching(message),
      hint: expect.stringMatching(hint),
    });
  });
});

test.each([
  ['user:///', /user:\/\/\/: it exists only inside Hadoop's Java programs/],
  ['bcfks://hdfs@ns1/keys.bcfks', /Bouncy Castle/],
  ['jceks://s3a@data/keys.jceks', /neither a local file nor on HDFS/],
  ['vault://keys', /its type is unknown/],
])('the error for the credential provider %s suggests an alternative', async (store, message) => {
  const stores = { 'hadoop.security.credential.provider.path': `jceks://file/none.jceks,${store}` };
  await expect(findS3Connection(noFiles, hadoop(stores))).rejects.toMatchObject({
    code: 'S3_CREDENTIALS_NOT_FOUND',
    message: expect.stringMatching(message),
    hint: expect.stringMatching(/hadoop credential create.*jceks:\/\/hdfs@/),
  });
});

test.each([
  [{}, {}, { endpoint: null, pathStyle: false, region: 'us-east-1' }],
  [{ AWS_ENDPOINT_URL: 'http://minio:9000' }, { 'fs.s3a.endpoint': 'x' }, { endpoint: 'http://minio:9000', pathStyle: true }],
  [{}, { 'fs.s3a.endpoint': 's3.eu-west-1.amazonaws.com' }, { endpoint: 'https://s3.eu-west-1.amazonaws.com', pathStyle: false }],
  [{}, { 'fs.s3a.endpoint': 'ceph', 'fs.s3a.connection.ssl.enabled': 'false' }, { endpoint: 'http://ceph', pathStyle: true }],
  [{}, { 'fs.s3a.endpoint': 'ceph', 'fs.s3a.path.style.access': 'false' }, { endpoint: 'https://ceph', pathStyle: false }],
  [{ AWS_REGION: 'a' }, { 'fs.s3a.endpoint.region': 'b' }, { region: 'a' }],
  [{}, { 'fs.s3a.endpoint.region': 'b' }, { region: 'b' }],
])('the environment %j and the properties %j select %j', async (environment, properties, expected) => {
  expect(await findS3Connection({ ...noFiles, ...KEYS, ...environment }, hadoop(properties))).toMatchObject(expected);
});

test.each(['ftp://host', 'http://user:password@host', 'not a url'])('the endpoint %s is rejected', async (endpoint) => {
  await expect(findS3Connection({ ...noFiles, ...KEYS, AWS_ENDPOINT_URL: endpoint }, null)).rejects.toMatchObject({
    code: 'HADOOP_CONF_INVALID',
  });
});
