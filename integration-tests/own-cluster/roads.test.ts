import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { createStorage } from '../../storage/create-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { describeStorage } from '../../storage/testing/storage-behavior.ts';
import { type Properties, toXml } from '../cluster/configuration.mjs';
import { expectSeen, fsspecRole } from '../fsspec-files.ts';
import { USER, useOwnCluster } from '../harness.ts';
import { changedConfiguration, nameNodeOf, withoutNameNode } from '../hdfs-roads.ts';
import { ROWS, type RowsJob, type RowsJobOptions, resultOf, SUM, trainOnRows } from '../rows-job.ts';

/** Every way to reach HDFS: several nameservices, webhdfs://, the mount tables of viewfs://, HttpFS and routers. */

const cluster = useOwnCluster('federation');
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-roads-test-'));
  for (const query of ['op=MKDIRS', `op=SETOWNER&owner=${USER}`]) {
    const answer = await cluster.request(`${address('namenode-2')}/webhdfs/v1/two?${query}`, { method: 'PUT' });
    expect(answer.status).toBe(200);
  }
  const { storage } = await open();
  await storage.write('hdfs://ns2/two/rows/part-0.csv', ROWS);
  await storage.write(`hdfs:///user/${USER}/rows/part-0.csv`, ROWS);
  storage.close();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

function address(daemon: string): string {
  return `http://localhost:${cluster.ports[daemon]?.http}`;
}

/** The mount table `box`: users and histories on the first nameservice, data on the second. */
function mounts(): Record<string, string> {
  const of = (key: string): string => `fs.viewfs.mounttable.box.${key}`;
  return {
    [of('link./user')]: 'hdfs://ns1/user',
    [of('link./yarn-logs')]: `hdfs://localhost:${cluster.ports.namenode.rpc}/yarn-logs`,
    [of('link./shared/data')]: 'hdfs://ns2/two',
  };
}

async function open(properties: Readonly<Record<string, string>> = {}): Promise<{ storage: Storage; hadoop: HadoopConfiguration }> {
  const hadoop = (await HadoopConfiguration.fromEnvironment(cluster.environment())).with(properties);
  return { hadoop, storage: createStorage({ hadoop, user: USER }) };
}

function configuration(name: string, files: Readonly<Record<string, Properties | string>>): Promise<{ HADOOP_CONF_DIR: string }> {
  return changedConfiguration(cluster, path.join(folder, name), files);
}

/** Submits a job that trains on the dataset `rows`, and checks its result. */
function train(name: string, env: Record<string, string>, rows: string, options: RowsJobOptions = {}): Promise<RowsJob> {
  return trainOnRows(cluster, { folder, name, env, rows, ...options });
}

/** Returns the job's checkpoint names and its output, read from the NameNode of the first nameservice. */
function onFirst(id: string): Promise<{ checkpoints: string[]; sum: string }> {
  return resultOf(cluster, id);
}

describeStorage('HttpFS', async () => {
  const { storage } = await open({ 'tony.storage.gateway': address('httpfs') });
  const root = `hdfs:///user/${USER}/httpfs-test`;
  const close = async (): Promise<void> => {
    await storage.remove(root);
    storage.close();
  };
  return { storage, root, close };
});

test('through HttpFS, a job trains without a connection to the NameNodes and DataNodes', async () => {
  const env = await configuration('gateway', {
    'hdfs-site.xml': withoutNameNode(cluster),
    'tony-site.yaml': `storage: {gateway: '${address('httpfs')}'}\n`,
  });
  const { id } = await train('gateway', env, `hdfs:///user/${USER}/rows`);
  expect(await onFirst(id)).toEqual({ checkpoints: ['step-6'], sum: SUM });
  expect((await nameNodeOf(cluster, env)).message).toBe(`hdfs://ns1 through the gateway ${address('httpfs')}`);
});

test('with a mount table as default file system, a job stages, reads, trains and logs across two nameservices', async () => {
  const include = '<xi:include href="mountTable.xml" xmlns:xi="http://www.w3.org/2001/XInclude"/>';
  const env = await configuration('viewfs', {
    'core-site.xml': toXml({ 'fs.defaultFS': 'viewfs://box' }).replace('<configuration>', `<configuration>${include}`),
    'mountTable.xml': toXml(mounts()),
  });
  const { id, checkpointDir } = await train('viewfs', env, 'viewfs:///shared/data/rows', {
    more: 'checkpoint: {dir: /shared/data/checkpoints}',
    roles: [`  files: ${await fsspecRole('viewfs:///shared/data/files')}`],
  });
  expect(checkpointDir).toBe('viewfs://box/shared/data/checkpoints');
  expect((await onFirst(id)).sum).toBe(SUM);
  const { storage } = await open();
  expect((await storage.list('hdfs://ns2/two/checkpoints')).map(({ name }) => name)).toContain('step-6');
  await expectSeen(storage, 'hdfs://ns2/two/files');
  storage.close();
  expect((await nameNodeOf(cluster, env)).message).toContain(`hdfs://ns2 by WebHDFS at ${address('namenode-2')}`);
});

test('with webhdfs:// URIs, a job needs only the web addresses of the NameNodes', async () => {
  const env = await configuration('webhdfs', {
    'core-site.xml': { 'fs.defaultFS': address('namenode').replace('http', 'webhdfs') },
  });
  const { id } = await train('webhdfs', env, `${address('namenode-2').replace('http', 'webhdfs')}/two/rows`);
  expect(await onFirst(id)).toEqual({ checkpoints: ['step-6'], sum: SUM });
});

test('mount points are listed and fixed, and files are not renamed across them', async () => {
  const { storage } = await open({ ...mounts(), 'fs.defaultFS': 'viewfs://box' });
  const names = async (uri: string): Promise<string[]> => (await storage.list(uri)).map(({ name, type }) => `${type} ${name}`);
  try {
    expect(await names('viewfs://box/')).toEqual(['folder shared', 'folder user', 'folder yarn-logs']);
    expect(await names('hdfs:///shared')).toEqual(['folder data']);
    expect(await storage.stat('viewfs://box/shared')).toMatchObject({ type: 'folder', permission: 0o555 });
    expect(await storage.stat('viewfs://box/shared/data')).toMatchObject({ owner: USER });
    expect(await storage.stat('viewfs://box/elsewhere')).toBeNull();
    const moved = storage.rename('viewfs://box/shared/data/rows', `viewfs://box/user/${USER}/rows-2`);
    await expect(moved).rejects.toMatchObject({ code: 'STORAGE_DENIED', message: expect.stringContaining('mount point') });
    await expect(storage.remove('viewfs://box/shared/data')).rejects.toMatchObject({ code: 'STORAGE_DENIED' });
    for (const place of ['shared', 'elsewhere']) {
      await expect(storage.write(`viewfs://box/${place}/file`, Buffer.from('x'))).rejects.toMatchObject({ code: 'NOT_FOUND' });
    }
  } finally {
    storage.close();
  }
});

test('a router serves the nameservice of routers', async () => {
  const { storage } = await open();
  const uri = `hdfs://routed/user/${USER}/routed/file`;
  try {
    await storage.write(uri, Buffer.from('through the router'));
    await storage.write(uri, Buffer.from('again'));
    expect((await storage.read(uri)).toString()).toBe('again');
    expect((await storage.list(`hdfs://routed/user/${USER}/routed`, { most: 5 })).map(({ name }) => name)).toEqual(['file']);
    expect((await storage.read(uri.replace('routed', 'ns1'))).toString()).toBe('again');
    expect(await storage.remove(uri)).toBe(true);
  } finally {
    storage.close();
  }
});

test('the error for an unknown nameservice lists the known ones', async () => {
  const { hadoop } = await open();
  const storage = createStorage({ hadoop, user: USER, maxWaitMs: 500 });
  await expect(storage.stat('hdfs://ns3.invalid/x')).rejects.toMatchObject({
    code: 'HDFS_UNREACHABLE',
    message: expect.stringContaining('known nameservices: ns1, ns2, routed'),
  });
  storage.close();
});
