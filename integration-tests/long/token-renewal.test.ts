import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { keytabOf } from '../cluster/kerberos.mjs';
import { ROOT } from '../command.ts';
import { jsonLines, temporaryFolder, until, useOwnCluster } from '../harness.ts';

/** Jobs for which the ResourceManager renews the delegation tokens several times, before and after the end of their maximum lifetime. */

const INTERVAL_MS = 20_000;
const LIFETIME_MS = 90_000;

const cluster = useOwnCluster('kerberos', {
  hdfs: {
    'dfs.namenode.delegation.token.max-lifetime': LIFETIME_MS,
    'dfs.namenode.delegation.token.renew-interval': INTERVAL_MS,
  },
  yarn: {
    'yarn.resourcemanager.delegation.token.max-lifetime': LIFETIME_MS,
    'yarn.resourcemanager.delegation.token.renew-interval': INTERVAL_MS,
  },
});

const asAlice = (...words: string[]) => cluster.run(words, { env: cluster.environment('alice') });

/** Submits a job that trains until the returned file exists. */
async function submit(lines: readonly string[]): Promise<{ readonly id: string; readonly end: string }> {
  const folder = await temporaryFolder();
  const [file, end] = [path.join(folder, 'job.yaml'), path.join(folder, 'end')];
  const yaml = [
    'name: renewal',
    'runtime: system',
    'command: node long-training.mjs',
    `source: ${path.join(ROOT, 'integration-tests', 'programs')}`,
    `env: {END: ${end}}`,
    'checkpoint: {everySteps: 2}',
    'roles: {worker: {instances: 1, resources: {memory: 768m}}}',
    ...lines,
  ];
  await writeFile(file, `${yaml.join('\n')}\n`);
  const { stdout, stderr } = await asAlice('submit', '--conf', file, '--detach');
  const id = /application_\d+_\d+/.exec(stdout)?.[0];
  if (id === undefined) {
    throw new Error(stderr);
  }
  return { id, end };
}

async function statusOf(id: string): Promise<JobStatus> {
  return jsonLines((await asAlice('status', id, '--output', 'json')).stdout)[0] as unknown as JobStatus;
}

function reaches(id: string, holds: (status: JobStatus) => boolean): Promise<JobStatus> {
  return until(
    async () => {
      const status = await statusOf(id);
      return holds(status) && status;
    },
    { describe: () => statusOf(id) },
  );
}

/** Returns how often the ResourceManager has renewed a job's tokens, by kind. */
async function renewals(id: string): Promise<Record<string, number>> {
  const log = await readFile(cluster.logFile('resourcemanager'), 'utf8');
  const lines = log.split('\n').filter((line) => line.includes('Renewed delegation-token') && line.includes(id));
  const count = (kind: string) => lines.filter((line) => line.includes(`Kind: ${kind},`)).length;
  return { hdfs: count('HDFS_DELEGATION_TOKEN'), resourceManager: count('RM_DELEGATION_TOKEN') };
}

test.concurrent('a job without a keytab trains for several renewal intervals', async () => {
  const { id, end } = await submit([]);
  const isRenewed = async () => Object.values(await renewals(id)).every((times) => times >= 4) && (await renewals(id));
  await until(isRenewed, { describe: () => renewals(id), timeoutMs: LIFETIME_MS });
  const { checkpointStep } = await reaches(id, ({ state }) => state === 'running');
  await reaches(id, (status) => status.checkpointStep > checkpointStep);
  await writeFile(end, '');
  expect(await reaches(id, ({ finishedAt }) => finishedAt !== null)).toMatchObject({ state: 'succeeded', generations: 1 });
});

test.concurrent('a job with a keytab continues with new tokens after the maximum lifetime of its first tokens', async () => {
  const { id, end } = await submit([
    `kerberos: {keytab: ${keytabOf(cluster.state, 'alice')}, principal: alice@EXAMPLE.TEST}`,
    `master: {env: {KRB5_CONFIG: ${cluster.environment('alice').KRB5_CONFIG}}}`,
  ]);
  const submittedAt = Date.now();
  await reaches(id, () => Date.now() > submittedAt + LIFETIME_MS + INTERVAL_MS);
  expect((await renewals(id)).hdfs).toBeGreaterThanOrEqual(4);
  const { checkpointStep } = await reaches(id, ({ state }) => state === 'running');
  await reaches(id, (status) => status.checkpointStep > checkpointStep);
  const { stdout } = await asAlice('events', id, '--output', 'json');
  expect(jsonLines(stdout).filter(({ type }) => type === 'tokens-replaced').length).toBeGreaterThanOrEqual(4);
  await writeFile(end, '');
  expect(await reaches(id, ({ finishedAt }) => finishedAt !== null)).toMatchObject({ state: 'succeeded', generations: 1, notices: [] });
});
