import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { listening } from '../../hadoop/testing/http-server.ts';
import { localObjectStores } from './object-stores.ts';

const STORE = fileURLToPath(new URL('../../hadoop/golden/credentials/default.jceks', import.meta.url));
const NO_PROFILE = { AWS_SHARED_CREDENTIALS_FILE: '/nonexistent/a', AWS_CONFIG_FILE: '/nonexistent/b' };

test('a local job reads a credential provider on HDFS through the gateway of the site file', async () => {
  const store = await readFile(STORE);
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? '');
    response.end(store);
  });
  const gateway = await listening(server);
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-stores-'));
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true });
  });
  const property = (name: string, value: string) => `<property><name>${name}</name><value>${value}</value></property>`;
  const properties = [
    property('fs.defaultFS', 'hdfs://127.0.0.1:1'),
    property('fs.s3a.security.credential.provider.path', 'jceks://hdfs@127.0.0.1:1/keys.jceks'),
  ];
  await writeFile(path.join(folder, 'core-site.xml'), `<configuration>${properties.join('')}</configuration>`);
  await writeFile(path.join(folder, 'tony-site.yaml'), `storage: {gateway: '${gateway}'}\n`);

  const find = localObjectStores({ ...NO_PROFILE, HADOOP_CONF_DIR: folder, HADOOP_USER_NAME: 'alice' });
  expect(await find('data')).toMatchObject({ accessKeyId: 'AKIAEXAMPLE' });
  expect(requests).toEqual([expect.stringMatching(/^\/webhdfs\/v1\/keys\.jceks\?op=OPEN&/)]);
});

test('without a Hadoop configuration, a local job uses the environment', async () => {
  const keys = { AWS_ACCESS_KEY_ID: 'ENV', AWS_SECRET_ACCESS_KEY: 'secret' };
  expect(await localObjectStores({ ...NO_PROFILE, ...keys })('data')).toMatchObject({ accessKeyId: 'ENV' });
  await expect(localObjectStores(NO_PROFILE)('data')).rejects.toMatchObject({ code: 'S3_CREDENTIALS_NOT_FOUND' });
});
