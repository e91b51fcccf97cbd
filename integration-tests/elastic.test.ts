import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { localPaths } from '../client/files/local-layout.ts';
import { describeEntry } from '../conf/status/event-text.ts';
import type { HistoryEntry, JobStatus } from '../conf/status/status.ts';
import { runCommand } from './command.ts';
import { noneLeft, temporaryFolder, USER, until, useCluster } from './harness.ts';

const PROGRAM = path.join(import.meta.dirname, 'programs', 'elastic-steps.mjs');

interface Start {
  readonly pid: number;
  readonly index: number;
  readonly worldSize: number;
  readonly from: number;
}

async function jobFile(name: string, lines: readonly string[]): Promise<{ file: string; out: string; go(): void }> {
  const folder = await temporaryFolder();
  const out = path.join(folder, 'out');
  mkdirSync(out);
  const file = path.join(folder, 'job.yaml');
  const yaml = [
    `name: ${name}`,
    'framework: none',
    'runtime: system',
    `env: {OUT: ${out}}`,
    `command: exec node ${PROGRAM}`,
    'heartbeat: {interval: 300ms, missed: 100}',
    'master: {resources: {memory: 512m}}',
    ...lines,
  ];
  writeFileSync(file, `${yaml.join('\n')}\n`);
  return { file, out, go: () => writeFileSync(path.join(out, 'go'), '') };
}

/** Waits until all programs of a generation with `size` ranks have started. Returns what each program recorded at its start. */
async function generation(out: string, number: number, size: number): Promise<Start[]> {
  return until(
    () => {
      const starts = Array.from(
        { length: size },
        (_, rank) => JSON.parse(readFileSync(path.join(out, `${number}-${rank}.json`), 'utf8')) as Start,
      );
      return starts.every(({ worldSize }) => worldSize === size) && starts;
    },
    { describe: () => ({ awaited: `${size} programs in generation ${number}`, files: readdirSync(out) }) },
  );
}

describe('elastic jobs on a cluster', () => {
  const cluster = useCluster();

  async function submit(file: string): Promise<string> {
    const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', file, '--detach']);
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    return /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
  }

  async function succeeded(id: string): Promise<void> {
    expect(await cluster.ended(id)).toMatchObject({ state: 'FINISHED', finalStatus: 'SUCCEEDED' });
    await noneLeft(cluster, id);
  }

  test('a job starts with the available tasks, grows when another job ends, and shrinks when YARN cannot replace a failed worker', async () => {
    const large = 'resources: {memory: 512m, gpus: 3}';
    const first = await jobFile('first', [`roles: {worker: {kind: gang, ${large}}}`]);
    const second = await jobFile('second', ['queue: gpu', `roles: {worker: {kind: gang, ${large}}}`]);
    const elastic = await jobFile('elastic', [`roles: {worker: {instances: {min: 1, max: 2}, kind: gang, ${large}}}`]);

    const firstId = await submit(first.file);
    await generation(first.out, 1, 1);
    const id = await submit(elastic.file);
    expect(await generation(elastic.out, 1, 1)).toMatchObject([{ index: 0, from: 0 }]);
    const status = await cluster.run(['status', id]);
    expect(status.stdout).toMatch(/elastic {2}running .*1 of 1\.\.2 worker/);

    first.go();
    await succeeded(firstId);
    const grown = await generation(elastic.out, 2, 2);
    expect(grown.map(({ index }) => index)).toEqual([0, 1]);
    expect(Math.min(...grown.map(({ from }) => from))).toBeGreaterThan(0);

    // The elastic job requests a replacement only after one of its workers has ended, so the second job's request is older.
    const secondId = await submit(second.file);
    await until(async () => /^second {2}waiting/m.test((await cluster.run(['status', secondId])).stdout), {
      describe: () => cluster.application(secondId),
    });
    process.kill(grown[1]?.pid ?? 0, 'SIGKILL');
    const shrunk = await generation(elastic.out, 3, 1);
    expect(shrunk[0]?.from).toBeGreaterThanOrEqual(grown[0]?.from ?? 0);
    await generation(second.out, 1, 1);

    elastic.go();
    await succeeded(id);
    second.go();
    await succeeded(secondId);
    const final = JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
    expect(final).toMatchObject({ state: 'succeeded', generations: 3, elastic: { role: 'worker', running: 1, min: 1, max: 2 } });
    const events = (await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${id}/events-1.jsonl`)).toString();
    expect(reasons(events)).toEqual([
      '1 ranked task (1 of 1..2 workers)',
      '2 ranked tasks (2 of 1..2 workers); the cluster has room for worker:1',
      '1 ranked task (1 of 1..2 workers); worker:1 failed',
    ]);
  });

  test('training continues from the checkpoint with more workers', async () => {
    const size = 'memory: 1500m, gpus: 3';
    const first = await jobFile('first', [`roles: {worker: {kind: gang, resources: {${size}}}}`]);
    const firstId = await submit(first.file);
    await generation(first.out, 1, 1);

    const { file, steps, go } = await trainingFile([`roles: {worker: {instances: {min: 1, max: 2}, resources: {${size}}}}`], {
      endless: true,
    });
    const id = await submit(file);
    await until(() => trained(steps, 1).length > 60, { describe: 'sixty steps of one worker' });
    first.go();
    await succeeded(firstId);
    await until(() => trained(steps, 2).length > 60, { describe: () => cluster.application(id) });
    go();
    await succeeded(id);
    const [alone, together] = [trained(steps, 1), trained(steps, 2)];
    expect(together.every(({ workers }) => workers === 2)).toBe(true);
    const from = (together[0]?.step ?? 0) - 1;
    // Training resumes from a checkpoint, and checkpoints are 20 steps apart.
    expect(from % 20).toBe(0);
    expect(from).toBeGreaterThan(0);
    expect(alone.length).toBeGreaterThanOrEqual(from);
    expect(together.map(({ step }) => step)).toEqual(together.map((_, at) => from + 1 + at));
    // The global batch stays constant, so the change of size does not affect the loss of the next step.
    const same = alone.find(({ step }) => step === from + 1);
    expect(together[0]?.loss).toBeCloseTo(same?.loss ?? Number.NaN, 4);
  });
});

test('on one machine, training continues from the checkpoint without a worker that has used up its restarts, with an adapted learning rate', async () => {
  const { file, steps } = await trainingFile(['roles: {worker: {instances: {min: 2, max: 3}, restart: {maxRestarts: 0}}}']);
  const root = path.join(path.dirname(file), 'root');
  const { stdout, stderr, exitCode } = await runCommand(['submit', '--local', '--conf', file], {
    env: { TONY_LOCAL_DIR: root, HADOOP_CONF_DIR: undefined },
  });
  expect(exitCode, stdout + stderr).toBe(0);
  const [id = ''] = /local_\d+_\d+/.exec(stdout) ?? [];
  const final = JSON.parse(readFileSync(path.join(localPaths(root, id).history, 'final.json'), 'utf8')) as JobStatus;
  expect(final.tasks.map(({ state }) => state)).toEqual(['succeeded', 'failed', 'succeeded']);
  const [first, second] = [trained(steps, 1), trained(steps, 2)];
  expect(first.map(({ step }) => step)).toEqual(first.map((_, at) => at + 1));
  expect(first.length).toBeGreaterThanOrEqual(44);
  expect(new Set(first.map(({ workers, rate }) => `${workers} ${rate.toFixed(3)}`))).toEqual(new Set(['3 0.030']));
  expect(second.map(({ step }) => step)).toEqual(Array.from({ length: 160 }, (_, at) => 41 + at));
  expect(new Set(second.map(({ workers, rate }) => `${workers} ${rate.toFixed(3)}`))).toEqual(new Set(['2 0.020']));
});

/** Writes a job that trains. With `endless`, the job trains until the file `go` exists. */
async function trainingFile(
  lines: readonly string[],
  options: { readonly endless?: boolean } = {},
): Promise<{ file: string; steps: string; go(): void }> {
  const folder = await temporaryFolder();
  const [file, steps, go] = ['job.yaml', 'steps', 'go'].map((name) => path.join(folder, name)) as [string, string, string];
  const yaml = [
    'name: elastic-fit',
    `source: ${path.dirname(PROGRAM)}`,
    `command: exec node elastic-fit.mjs ${steps} ${options.endless === true ? go : ''}`,
    'checkpoint: {everySteps: 20}',
    ...lines,
  ];
  writeFileSync(file, `${yaml.join('\n')}\n`);
  return { file, steps, go: () => writeFileSync(go, '') };
}

interface TrainedStep {
  readonly step: number;
  readonly workers: number;
  readonly rate: number;
  readonly loss: number;
}

function trained(steps: string, generation: number): TrainedStep[] {
  if (!existsSync(steps)) {
    return [];
  }
  const lines = readFileSync(steps, 'utf8').trim().split('\n');
  return lines
    .map((line) => line.split(' ').map(Number) as [number, number, number, number, number])
    .flatMap(([of, step, workers, rate, loss]) => (of === generation ? [{ step, workers, rate, loss }] : []));
}

function reasons(events: string): string[] {
  return events
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as HistoryEntry)
    .filter(({ type }) => type === 'generation-started')
    .map((entry) => describeEntry(entry).replace(/, (newest checkpoint: step \d+|no checkpoint yet)/, ''));
}
