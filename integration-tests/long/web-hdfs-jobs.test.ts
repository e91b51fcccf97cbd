import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { toXml } from '../cluster/configuration.mjs';
import { USER, useOwnCluster } from '../harness.ts';
import { ROWS, resultOf, SUM, trainOnRows } from '../rows-job.ts';

/** Jobs on a cluster with HTTPS whose files all have swebhdfs:// URIs. Without the NameNode's RPC address, NodeManagers download from there, too. */

const cluster = useOwnCluster('tls');
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-swebhdfs-test-'));
  await cluster.hdfsMakeFolder('/shared', '777');
  await cluster.hdfsMakeFolder('/shared/rows', '755');
  await cluster.hdfsWrite('/shared/rows/part-0.csv', ROWS);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

function web(): string {
  return `swebhdfs://localhost:${cluster.ports.namenode.http}`;
}

/** Returns the URIs from which NodeManagers download a job's files. */
async function downloads(name: string, env: Record<string, string>): Promise<string[]> {
  const file = path.join(folder, `job-${name}`, 'job.yaml');
  const { stdout, stderr } = await cluster.run(['submit', '--conf', file, '--dry-run', '--output', 'json'], { env });
  const uris = stdout.match(/"resource":"[^"]+"/g) ?? [];
  expect(uris.length, stderr + stdout).toBeGreaterThan(0);
  return uris.map((uri) => uri.slice('"resource":"'.length, -1));
}

/** Returns the different schemes and authorities of URIs. */
function addresses(uris: readonly string[]): string[] {
  return [...new Set(uris.map((uri) => /^\w+:\/\/[^/]+/.exec(uri)?.[0] ?? uri))];
}

test('staging, data and checkpoints can have swebhdfs:// URIs while the default file system is hdfs://', async () => {
  const staging = `${web()}/user/${USER}/staged`;
  const env = { TONY_STAGING: staging };
  const { id, checkpointDir } = await trainOnRows(cluster, {
    folder,
    name: 'explicit',
    env,
    rows: `${web()}/shared/rows`,
    more: `checkpoint: {dir: '${web()}/shared/checkpoints'}`,
  });
  expect(checkpointDir).toBe(`${web()}/shared/checkpoints`);
  const stored = (await cluster.hdfsTree('/shared/checkpoints')).map((entry) => path.basename(entry.path));
  expect(stored).toContain('step-6');
  expect((await resultOf(cluster, id, `/user/${USER}/staged`)).sum).toBe(SUM);
  // The configuration contains the NameNode's RPC address, which is faster for NodeManagers.
  expect(addresses(await downloads('explicit', env))).toEqual([`hdfs://localhost:${cluster.ports.namenode.rpc}`]);
});

test('with a swebhdfs:// URI as default file system, a job needs only the web address of the NameNode', async () => {
  const copy = path.join(folder, 'configuration');
  await cp(cluster.configuration, copy, { recursive: true });
  await writeFile(path.join(copy, 'core-site.xml'), toXml({ 'fs.defaultFS': web() }));
  await writeFile(path.join(copy, 'hdfs-site.xml'), toXml({ 'dfs.http.policy': 'HTTPS_ONLY' }));
  const env = { HADOOP_CONF_DIR: copy };
  const { id, checkpointDir } = await trainOnRows(cluster, { folder, name: 'default', env, rows: 'hdfs:///shared/rows' });
  expect(checkpointDir).toMatch(/^swebhdfs:/);
  expect(await resultOf(cluster, id)).toEqual({ checkpoints: ['step-6'], sum: SUM });
  expect(addresses(await downloads('default', env))).toEqual([web()]);
});
