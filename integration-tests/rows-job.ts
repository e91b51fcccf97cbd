import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'vitest';
import { ROOT } from './command.ts';
import { jsonLines, type TestCluster, USER } from './harness.ts';

/** A small training job that reads a dataset, writes checkpoints, a model and a file: it uses HDFS in every way that a job does. */

const VALUES = Array.from({ length: 12 }, (_, index) => index / 8);
/** Content of the dataset's only file, `part-0.csv`. */
export const ROWS = Buffer.from(`${VALUES.join('\n')}\n`);
/** Content of the file that the job writes. */
export const SUM = String(VALUES.reduce((sum, each) => sum + each, 0));

export interface RowsJobOptions {
  /** A further line of job.yaml. */
  readonly more?: string;
  /** Lines of job.yaml with further roles. */
  readonly roles?: readonly string[];
}

export interface RowsJob {
  readonly id: string;
  readonly checkpointDir: string;
}

/** Submits a job that trains on the dataset `rows`. Returns when the job has succeeded and its history and logs have been read. */
export async function trainOnRows(
  cluster: TestCluster,
  {
    folder,
    name,
    env,
    rows,
    more = '',
    roles = [],
  }: RowsJobOptions & { readonly folder: string; readonly name: string; readonly env: Record<string, string>; readonly rows: string },
): Promise<RowsJob> {
  const place = path.join(folder, `job-${name}`);
  await mkdir(place);
  const yaml = [
    `name: ${name}`,
    'command: exec node roads.mjs',
    `source: {path: ${path.join(ROOT, 'integration-tests', 'programs')}}`,
    'env: {TONY_BACKEND: cpu}',
    `data: {rows: '${rows}'}`,
    more,
    'roles:',
    '  worker: {instances: 1, resources: {memory: 768m}}',
    ...roles,
  ];
  const file = path.join(place, 'job.yaml');
  await writeFile(file, `${yaml.join('\n')}\n`);
  const { exitCode, stdout, stderr } = await cluster.run(['submit', '--conf', file, '--output', 'json'], { env });
  expect(exitCode, stderr + stdout).toBe(0);
  const { id } = jsonLines(stdout).find(({ type }) => type === 'result') as { id: string };
  const shown = await cluster.run(['history', 'show', id, '--output', 'json'], { env });
  const [status] = jsonLines(shown.stdout) as unknown as [{ checkpointUri: string }];
  expect(status, shown.stderr + shown.stdout).toMatchObject({ checkpointStep: 6 });
  const logs = await cluster.run(['logs', id, 'master'], { env });
  expect(logs.stdout, logs.stderr).toContain('registered');
  return { id, checkpointDir: status.checkpointUri };
}

/** Returns the job's checkpoint names and its output, read from the cluster's first NameNode. */
export async function resultOf(
  cluster: TestCluster,
  id: string,
  root = `/user/${USER}/.tony-ts`,
): Promise<{ checkpoints: string[]; sum: string }> {
  const home = `${root}/output/${id}`;
  const files = (await cluster.hdfsTree(home)).map((entry) => entry.path);
  return {
    checkpoints: files.filter((file) => file.endsWith('/manifest.json')).map((file) => path.basename(path.dirname(file))),
    sum: (await cluster.hdfsRead(`${home}/sum`)).toString(),
  };
}
