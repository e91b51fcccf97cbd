import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder, USER, useOwnCluster } from '../harness.ts';
import { changedConfiguration, nameNodeOf, withoutNameNode } from '../hdfs-roads.ts';
import { startKnox } from '../knox/knox.ts';
import { ROWS, resultOf, SUM, trainOnRows } from '../rows-job.ts';

const cluster = useOwnCluster('federation');

test('through Knox, which requires HTTPS and HTTP Basic, a job trains and doctor finds no problem', async () => {
  const folder = await temporaryFolder();
  await cluster.hdfsWrite(`/user/${USER}/rows/part-0.csv`, ROWS);
  const knox = await startKnox(`http://localhost:${cluster.ports.namenode.http}`, USER, 'pass:word');
  onTestFinished(() => knox.close());
  const credentials = path.join(folder, 'credentials');
  await writeFile(credentials, `${USER}:pass:word\n`, { mode: 0o600 });
  const env = await changedConfiguration(cluster, path.join(folder, 'knox'), {
    'hdfs-site.xml': withoutNameNode(cluster),
    'gateway.pem': knox.certificate,
    'tony-site.yaml': `tls: {ca: gateway.pem}\nstorage: {gateway: '${knox.url}', credentials: ${credentials}}\n`,
  });
  const { id } = await trainOnRows(cluster, { folder, name: 'knox', env, rows: `hdfs:///user/${USER}/rows` });
  expect(await resultOf(cluster, id)).toEqual({ checkpoints: ['step-6'], sum: SUM });
  expect((await nameNodeOf(cluster, env)).message).toBe(`hdfs://ns1 through the gateway ${knox.url}`);
  const stored = await cluster.hdfsTree(`/user/${USER}/.tony-ts/history/${id}`);
  const texts = await Promise.all(stored.filter(({ type }) => type === 'FILE').map(async (file) => cluster.hdfsRead(file.path)));
  expect(Buffer.concat(texts).includes('pass:word')).toBe(false);
  await writeFile(credentials, `${USER}:other\n`);
  const refused = await cluster.run(['submit', '--', 'true'], { env });
  expect(refused.exitCode).not.toBe(0);
  expect(refused.stderr).toContain('HTTP 401');
});
