import path from 'node:path';
import { expect, test } from 'vitest';
import type { JobPlan } from '../../client/plan/job-plan.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { jsonLines, temporaryFolder, USER, useCluster } from '../harness.ts';
import { importOptions, MIGRATION_CASES, type MigrationCase, resultsIn, writeMigration } from './tony-migration-cases.ts';

/** Runs converted TonY jobs on a cluster. */

const cluster = useCluster();

/** Small containers, so that all tasks of a job fit on the test cluster. */
const MEMORY = Object.fromEntries(
  ['am', 'chief', 'worker', 'ps', 'evaluator', 'loader', 'store', 'watch'].map((name) => [`tony.${name}.memory`, '512m']),
);

const ON_CLUSTER: readonly MigrationCase[] = [
  ...MIGRATION_CASES,
  {
    name: 'GPUs of a role',
    settings: { 'tony.application.framework': 'pytorch', 'tony.worker.instances': '2', 'tony.worker.gpus': '1' },
    // The cluster's GPUs are simulated, so programs see no device.
    programs: { worker: 'result' },
    succeeds: true,
    results: ['worker:0', 'worker:1'],
    tasks: {},
  },
];

test.each(ON_CLUSTER)('$name', async (each) => {
  const folder = await temporaryFolder();
  const out = writeMigration(folder, { ...each, settings: { ...MEMORY, ...each.settings } });
  const to = path.join(folder, 'job.yaml');
  const imported = await cluster.run(['import', 'tony.xml', ...importOptions(each), '--to', to], { cwd: folder });
  expect(imported).toMatchObject({ exitCode: 0, stdout: expect.not.stringContaining('Still needed') });
  const { stdout, exitCode } = await cluster.run(['submit', '--conf', to, '--output', 'json']);
  const [plan] = jsonLines(stdout).filter(({ type }) => type === 'plan') as unknown as [JobPlan];
  expect(plan.total.resources.gpus?.min ?? 0).toBe(each.settings['tony.worker.gpus'] === '1' ? 2 : 0);
  const result = jsonLines(stdout).at(-1) as { state: string; id: string; message: string };
  expect(result.state, result.message).toBe(each.succeeds ? 'succeeded' : 'failed');
  expect(exitCode).toBe(each.succeeds ? 0 : 1);
  expect(resultsIn(out)).toEqual(each.results);
  await cluster.ended(result.id);
  const final = await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${result.id}/final.json`);
  const { tasks } = JSON.parse(final.toString()) as JobStatus;
  expect(Object.fromEntries(tasks.map(({ role, index, state }) => [`${role}:${index}`, state]))).toMatchObject(each.tasks);
});
