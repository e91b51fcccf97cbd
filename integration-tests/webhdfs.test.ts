import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { WebHdfs } from '../hadoop/hdfs/web-hdfs.ts';
import { createStorage } from '../storage/create-storage.ts';
import { USER, useCluster } from './harness.ts';

const cluster = useCluster();
const FOLDER = `/user/${USER}/webhdfs-test`;
let configuration: HadoopConfiguration;
let authority: string;
let hdfs: WebHdfs;

beforeAll(async () => {
  configuration = await HadoopConfiguration.fromEnvironment(cluster.environment());
  authority = configuration.defaultFs.replace('hdfs://', '');
  hdfs = WebHdfs.of(configuration, { scheme: 'hdfs', authority }, USER, { maxWaitMs: 170_000 });
});
afterAll(async () => {
  await hdfs.remove(FOLDER);
  hdfs.close();
});

async function setQuota(folder: string, bytes: number): Promise<void> {
  const url = `${cluster.nameNode}/webhdfs/v1${folder}?op=SETQUOTA&namespacequota=1000&storagespacequota=${bytes}&user.name=${cluster.administrator}`;
  const answer = await fetch(url, { method: 'PUT' });
  if (!answer.ok) {
    throw new Error(await answer.text());
  }
}

test('the client skips an unavailable NameNode of an HA list', async () => {
  const ha = HadoopConfiguration.fromProperties({
    'fs.defaultFS': 'hdfs://blue',
    'dfs.nameservices': 'blue',
    'dfs.ha.namenodes.blue': 'dead,alive',
    'dfs.namenode.http-address.blue.dead': 'localhost:1',
    'dfs.namenode.http-address.blue.alive': cluster.nameNode.replace('http://', ''),
  });
  const storage = createStorage({ hadoop: ha, user: USER });
  await storage.write(`hdfs://blue${FOLDER}/ha`, Buffer.from('there'));
  expect((await storage.read(`hdfs://${FOLDER}/ha`)).toString()).toBe('there');
  storage.close();
});

test('an exhausted quota ends a long write immediately with an error that names the quota', async () => {
  const folder = `${FOLDER}/quota`;
  await hdfs.makeFolder(folder, 0o755);
  // The quota has room for one block of 128 MiB.
  await setQuota(folder, 140_000_000);
  const block = Buffer.alloc(8_000_000);
  async function* long(): AsyncIterable<Buffer> {
    for (let part = 0; part < 40; part += 1) {
      yield block;
    }
  }
  const storage = createStorage({ hadoop: configuration, user: USER });
  await expect(storage.write(`hdfs://${authority}${folder}/file`, long())).rejects.toMatchObject({
    code: 'STORAGE_FULL',
    message: expect.stringContaining('quota'),
    hint: expect.stringContaining('quota'),
  });
  expect(await hdfs.list(folder)).toEqual([]);
  storage.close();
});

test('an interrupted read continues when the DataNode restarts', async () => {
  const data = randomBytes(64_000_000);
  await hdfs.create(`${FOLDER}/long`, data, { overwrite: true, permission: 0o644 });
  const stream = await hdfs.open(`${FOLDER}/long`);
  const hash = createHash('sha256');
  let read = 0;
  let isKilled = false;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    hash.update(chunk);
    read += chunk.length;
    if (!isKilled && read > 1_000_000) {
      isKilled = true;
      await cluster.kill('datanode');
      await cluster.heal();
    }
  }
  expect(read).toBe(data.length);
  expect(hash.digest('hex')).toBe(createHash('sha256').update(data).digest('hex'));
});

test('when the NameNode is down, the client waits up to its time limit', async () => {
  await cluster.kill('namenode');
  const impatient = createStorage({ hadoop: configuration, user: USER, maxWaitMs: 200 });
  await expect(impatient.write(`hdfs://${authority}${FOLDER}/x`, Buffer.from('x'))).rejects.toMatchObject({
    code: 'HDFS_UNREACHABLE',
    exitCode: 3,
    message: expect.stringContaining('ECONNREFUSED'),
  });
  impatient.close();
  const written = hdfs.create(`${FOLDER}/patient`, Buffer.from('at last'), { overwrite: true, permission: 0o644 });
  await Promise.all([written, cluster.heal()]);
  expect(await hdfs.status(`${FOLDER}/patient`)).toMatchObject({ length: 7, owner: USER });
});
