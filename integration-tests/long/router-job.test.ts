import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { toXml } from '../cluster/configuration.mjs';
import { jsonLines, USER, useOwnCluster } from '../harness.ts';
import { ROWS, resultOf, SUM, trainOnRows } from '../rows-job.ts';

/** Jobs on a cluster with router-based federation whose default file system is the router: no file of the job has another address. */

const cluster = useOwnCluster('federation');
let folder: string;
let env: { HADOOP_CONF_DIR: string };

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-router-test-'));
  const copy = path.join(folder, 'configuration');
  await cp(cluster.configuration, copy, { recursive: true });
  await writeFile(path.join(copy, 'core-site.xml'), toXml({ 'fs.defaultFS': 'hdfs://routed' }));
  env = { HADOOP_CONF_DIR: copy };
  await cluster.hdfsMakeFolder(`/user/${USER}/rows`, '755');
  await cluster.hdfsWrite(`/user/${USER}/rows/part-0.csv`, ROWS);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test('a job stages its files, reads its data, and writes checkpoints, output, history and logs through the router', async () => {
  const { id, checkpointDir } = await trainOnRows(cluster, { folder, name: 'routed', env, rows: `hdfs:///user/${USER}/rows` });
  expect(checkpointDir).toMatch(/^hdfs:\/\/routed\//);
  expect(await resultOf(cluster, id)).toEqual({ checkpoints: ['step-6'], sum: SUM });

  const doctor = await cluster.run(['doctor', '--output', 'json'], { env });
  const findings = jsonLines(doctor.stdout);
  expect(findings.filter(({ state }) => state !== 'ok')).toEqual([]);
  expect(findings.find(({ name }) => name === 'NameNode')).toMatchObject({ message: expect.stringContaining('hdfs://routed') });
  const listed = await cluster.run(['history', '--output', 'json'], { env });
  expect(jsonLines(listed.stdout), listed.stderr).toContainEqual(expect.objectContaining({ id }));
});
