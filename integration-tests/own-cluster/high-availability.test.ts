import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { webProxyAt } from '../cluster/web-proxy.mjs';
import { jsonLines, temporaryFolder, USER, until, useOwnCluster } from '../harness.ts';

/**
 * Failover of the ResourceManager and of the NameNode during a job, on a cluster with two of each. YARN's web proxy runs outside the
 * ResourceManagers, so the job's pages survive the failover.
 */

const cluster = useOwnCluster('ha+proxy');
const PROGRAM = path.join(import.meta.dirname, '..', 'programs', 'elastic-fit.mjs');

async function pageOf(id: string): Promise<JobStatus> {
  const answer = await cluster.request(`http://${webProxyAt(cluster)}/proxy/${id}/tony/api/v1/job`);
  if (!answer.ok) {
    throw new Error(`${answer.status} ${await answer.text()}`);
  }
  return (await answer.json()) as JobStatus;
}

async function failOver(kind: 'resourcemanager' | 'namenode'): Promise<void> {
  const before = await cluster.activeName(kind);
  await cluster.kill(before);
  await until(async () => (await cluster.activeName(kind)) !== before, { describe: `the pair of ${before} is active` });
}

test('a job continues training during a ResourceManager failover and a NameNode failover, without a failed attempt', async () => {
  const folder = await temporaryFolder();
  const [file, steps, go] = ['job.yaml', 'steps', 'go'].map((name) => path.join(folder, name)) as [string, string, string];
  const yaml = [
    'name: highly-available',
    `source: ${path.dirname(PROGRAM)}`,
    `command: exec node elastic-fit.mjs ${steps} ${go}`,
    'checkpoint: {everySteps: 20}',
    'roles: {worker: {instances: 2, resources: {memory: 1g}}}',
  ];
  writeFileSync(file, `${yaml.join('\n')}\n`);
  const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', file, '--detach']);
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
  const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
  onTestFinished(async () => {
    if (!existsSync(go)) {
      await cluster.run(['kill', id]);
    }
  });
  const trainsBeyond = (step: number) => until(async () => (await pageOf(id)).step > step, { describe: () => pageOf(id).catch(String) });
  await trainsBeyond(20);

  await failOver('resourcemanager');
  await trainsBeyond((await until(() => pageOf(id), { describe: 'the page through the other ResourceManager' })).step);
  const status = await cluster.run(['status', id]);
  expect(status.stdout, status.stderr).toMatch(/^highly-available {2}running/m);
  // The job's own page contains the step; the ResourceManager does not know it.
  const [listed] = jsonLines((await cluster.run(['list', '--output', 'json'])).stdout);
  expect(listed).toMatchObject({ id, step: expect.any(Number) });

  await cluster.heal();
  await failOver('namenode');
  const checkpoints = async (): Promise<string[]> => {
    const entries = await cluster.hdfsTree(`/user/${USER}/.tony-ts/output/${id}/checkpoints`);
    return entries.filter((entry) => entry.path.endsWith('/manifest.json')).map((entry) => entry.path);
  };
  const before = new Set(await until(checkpoints, { describe: 'the checkpoints through the other NameNode' }));
  await until(async () => (await checkpoints()).some((each) => !before.has(each)), { describe: checkpoints });

  writeFileSync(go, '');
  expect(await cluster.ended(id)).toMatchObject({ state: 'FINISHED', finalStatus: 'SUCCEEDED' });
  const final = JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
  expect(final).toMatchObject({ generations: 1, masterAttempt: 1 });
  expect(final.tasks.map(({ attempts, failures }) => [attempts, failures])).toEqual([
    [1, 0],
    [1, 0],
  ]);
  expect(readFileSync(steps, 'utf8').trim().split('\n').length).toBeGreaterThan(40);
  const logs = await cluster.run(['logs', id, 'worker:0']);
  expect(logs.exitCode, logs.stderr).toBe(0);
});
