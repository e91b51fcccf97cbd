import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFailed, test } from 'vitest';
import type { HistoryEntry, JobStatus } from '../conf/status/status.ts';
import { usePreemption } from './capacity-preemption.ts';
import { temporaryFolder, USER, until, useCluster } from './harness.ts';

/** The Capacity Scheduler preempts containers of a queue that exceeds its share. It announces the preemption some seconds in advance. */

const cluster = useCluster();

usePreemption(cluster);

const PROGRAM = path.join(import.meta.dirname, 'programs', 'elastic-fit.mjs');

async function submit(lines: readonly string[]): Promise<{ readonly id: string; readonly folder: string }> {
  const folder = await temporaryFolder();
  const file = path.join(folder, 'job.yaml');
  writeFileSync(file, `${lines.join('\n').replaceAll('FOLDER', folder)}\n`);
  const { stdout, stderr, exitCode } = await cluster.run(['submit', '--conf', file, '--detach']);
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
  const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
  onTestFailed(() => cluster.run(['kill', id]).then(() => undefined));
  return { id, folder };
}

test("a job stores a checkpoint when YARN announces that it will take a worker's container, and continues from there", async () => {
  const training = await submit([
    'name: preempted',
    `source: ${path.dirname(PROGRAM)}`,
    'command: exec node elastic-fit.mjs FOLDER/steps FOLDER/go',
    // The job writes no periodic checkpoint during the test.
    'checkpoint: {everySteps: 1000000}',
    // The job is not elastic, because an elastic job that starts with one worker grows only at a checkpoint.
    'roles: {worker: {instances: 2, resources: {memory: 1g, gpus: 4}}}',
  ]);
  const trained = () =>
    readFileSync(path.join(training.folder, 'steps'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => line.split(' ').map(Number) as [generation: number, step: number, workers: number]);
  await until(() => trained().some(([, step, workers]) => workers === 2 && step > 20), {
    describe: () => cluster.application(training.id),
  });
  const before = (trained().at(-1) as [number, number, number])[1];

  const fuller = await submit([
    'name: entitled',
    'queue: gpu',
    'framework: none',
    'runtime: system',
    'command: while [ ! -e FOLDER/go ]; do sleep 0.1; done',
    'roles: {worker: {resources: {memory: 256m, gpus: 4}}}',
    'master: {resources: {memory: 512m}}',
  ]);
  const last = (generation: number) => trained().filter((each) => each[0] === generation);
  // YARN must preempt a container of the training before both containers of this job can run.
  await until(async () => (await cluster.application(fuller.id)).runningContainers === 2, {
    describe: () => cluster.application(fuller.id),
  });
  writeFileSync(path.join(fuller.folder, 'go'), '');
  expect(await cluster.ended(fuller.id)).toMatchObject({ state: 'FINISHED', finalStatus: 'SUCCEEDED' });
  await until(() => last(2).length > 10, { describe: () => cluster.application(training.id) });
  const [first] = last(2) as [[number, number, number]];
  expect(first[2]).toBe(2);
  expect(first[1]).toBeGreaterThan(before);
  expect(first[1]).toBeLessThanOrEqual((last(1).at(-1) as [number, number, number])[1] + 1);

  writeFileSync(path.join(training.folder, 'go'), '');
  expect(await cluster.ended(training.id)).toMatchObject({ state: 'FINISHED', finalStatus: 'SUCCEEDED' });
  const history = `/user/${USER}/.tony-ts/history/${training.id}`;
  const events = (await cluster.hdfsRead(`${history}/events-1.jsonl`)).toString().trim().split('\n');
  const entries = events.map((line) => JSON.parse(line) as HistoryEntry);
  const announced = entries.findIndex(({ type }) => type === 'preemption-announced');
  const taken = entries.findIndex(({ type, message }) => type === 'container-ended' && message?.includes('(exit status -102)') === true);
  expect(announced, events.join('\n')).toBeGreaterThanOrEqual(0);
  expect(taken).toBeGreaterThan(announced);
  const final = JSON.parse((await cluster.hdfsRead(`${history}/final.json`)).toString()) as JobStatus;
  expect(final.tasks.map(({ failures }) => failures)).toEqual(final.tasks.map(() => 0));
});
