import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { decodeCredentials } from '../../hadoop/rpc/credentials.ts';
import { ROOT } from '../command.ts';
import { jsonLines, type TestCluster, temporaryFolder, USER, until, useOwnCluster } from '../harness.ts';

/** Jobs with Kerberos and several NameNodes: of two nameservices, and of one nameservice that fails over together with YARN. */

/** Submits a job of two workers that train and write checkpoints until the returned file exists. */
async function submit(cluster: TestCluster, lines: readonly string[]): Promise<{ readonly id: string; readonly end: string }> {
  const folder = await temporaryFolder();
  const [file, end] = [path.join(folder, 'job.yaml'), path.join(folder, 'end')];
  const yaml = [
    'name: file-systems',
    'runtime: system',
    'command: node long-training.mjs',
    `source: ${path.join(ROOT, 'integration-tests', 'programs')}`,
    `env: {END: ${end}}`,
    'roles: {worker: {instances: 2, resources: {memory: 768m}}}',
    ...lines,
  ];
  await writeFile(file, `${yaml.join('\n')}\n`);
  const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', file, '--detach'], { env: cluster.environment(USER) });
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
  return { id: /application_\d+_\d+/.exec(stdout)?.[0] ?? '', end };
}

async function statusOf(cluster: TestCluster, id: string): Promise<JobStatus | null> {
  const { stdout } = await cluster.run(['status', id, '--output', 'json'], { env: cluster.environment(USER) });
  return (jsonLines(stdout)[0] as unknown as JobStatus | undefined) ?? null;
}

function reaches(cluster: TestCluster, id: string, holds: (status: JobStatus) => boolean): Promise<JobStatus> {
  return until(
    async () => {
      const status = await statusOf(cluster, id);
      return status !== null && holds(status) && status;
    },
    { describe: () => statusOf(cluster, id) },
  );
}

/** Expects that the job ended well, without a restart of a program or of the ApplicationMaster. */
async function expectUndisturbed(cluster: TestCluster, id: string): Promise<void> {
  const ended = await reaches(cluster, id, ({ finishedAt }) => finishedAt !== null);
  expect(ended).toMatchObject({ state: 'succeeded', generations: 1, masterAttempt: 1 });
  expect(ended.tasks.map(({ attempts, failures }) => [attempts, failures])).toEqual([
    [1, 0],
    [1, 0],
  ]);
}

describe('two nameservices', () => {
  const cluster = useOwnCluster('kerberos+federation');

  /** Sends a request to the NameNode of the second nameservice as the administrator. */
  const inSecond = (folder: string, query: string, method = 'GET'): Promise<Response> =>
    cluster.request(`http://localhost:${cluster.ports['namenode-2']?.http}/webhdfs/v1${folder}?${query}`, { method });

  test('a job reads and writes files of both with one token for each', async () => {
    expect((await inSecond('/shared', 'op=MKDIRS&permission=777', 'PUT')).status).toBe(200);
    const { id, end } = await submit(cluster, ['checkpoint: {everySteps: 2, dir: hdfs://ns2/shared/checkpoints}']);
    await reaches(cluster, id, ({ checkpointStep }) => checkpointStep > 0);

    const data = path.join(cluster.state, 'data');
    const [file] = (await readdir(data, { recursive: true })).filter((each) => each.includes(id) && each.endsWith('/delegation-tokens'));
    const { tokens } = decodeCredentials(await readFile(path.join(data, file ?? 'missing')));
    expect(tokens.map(({ token }) => [token.kind, token.service]).sort()).toEqual([
      ['HDFS_DELEGATION_TOKEN', 'ha-hdfs:ns1'],
      ['HDFS_DELEGATION_TOKEN', 'ha-hdfs:ns2'],
    ]);

    await writeFile(end, '');
    await expectUndisturbed(cluster, id);
    const written = (await (await inSecond('/shared/checkpoints', 'op=LISTSTATUS')).json()) as {
      FileStatuses: { FileStatus: { pathSuffix: string; owner: string }[] };
    };
    expect(written.FileStatuses.FileStatus).toContainEqual(expect.objectContaining({ owner: USER }));
    const output = await cluster.hdfsTree(`/user/${USER}/.tony-ts/output/${id}`);
    expect(output.map((entry) => path.basename(entry.path))).toEqual(expect.arrayContaining(['rank-0', 'rank-1']));
  });
});

describe('high availability', () => {
  const cluster = useOwnCluster('kerberos+ha');

  async function failOver(kind: 'resourcemanager' | 'namenode'): Promise<void> {
    const before = await cluster.activeName(kind);
    await cluster.kill(before);
    await until(async () => (await cluster.activeName(kind)) !== before, {
      describe: `the pair of ${before} is active`,
    });
  }

  test('a job with delegation tokens continues through a failover of the ResourceManager and of the NameNode', async () => {
    const { id, end } = await submit(cluster, ['checkpoint: {everySteps: 2}']);
    const trainsOn = async (): Promise<void> => {
      const { step } = (await statusOf(cluster, id)) ?? { step: 0 };
      await reaches(cluster, id, (status) => status.step > step);
    };
    const checkpoints = async (): Promise<string[]> => {
      const entries = await cluster.hdfsTree(`/user/${USER}/.tony-ts/output/${id}/checkpoints`);
      return entries.filter((entry) => entry.path.endsWith('/manifest.json')).map((entry) => entry.path);
    };
    await reaches(cluster, id, ({ checkpointStep }) => checkpointStep > 0);

    await failOver('resourcemanager');
    await trainsOn();
    await cluster.heal();

    await failOver('namenode');
    const before = new Set(await until(checkpoints, { describe: 'the checkpoints through the other NameNode' }));
    await until(async () => (await checkpoints()).some((each) => !before.has(each)), { describe: checkpoints });
    await trainsOn();

    await writeFile(end, '');
    await expectUndisturbed(cluster, id);
  });
});
