import { copyFile, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { usePreemption } from '../capacity-preemption.ts';
import { ROOT } from '../command.ts';
import { noneLeft, temporaryFolder, USER, until, useCluster } from '../harness.ts';
import { SubmittedJob } from './submitted-job.ts';

/** What a Python program notices when tony-ts or YARN ends it early, and whether it can still save a checkpoint. */

const cluster = useCluster();

usePreemption(cluster);

interface Run {
  readonly job: SubmittedJob;
  /** Returns what the task's program has recorded. */
  readonly seen: (task: string) => Promise<string[]>;
  readonly create: (name: string) => Promise<void>;
}

/** Submits a job. In `options`, PROGRAM stands for the command of early-end.py, and FOLDER for the folder of its records. */
async function submit(options: object): Promise<Run> {
  const folder = await temporaryFolder();
  await copyFile(path.join(ROOT, 'integration-tests', 'programs', 'early-end.py'), path.join(folder, 'early-end.py'));
  const file = path.join(folder, 'job.yaml');
  const job = { name: 'early-end', framework: 'none', runtime: 'system', checkpoint: { everySteps: 1000 }, ...options };
  const text = JSON.stringify(job).replaceAll('PROGRAM', 'exec python3 early-end.py FOLDER').replaceAll('FOLDER', folder);
  await writeFile(file, text);
  const seen = async (task: string) => (await readFile(path.join(folder, task), 'utf8').catch(() => '')).trim().split('\n');
  return { job: await SubmittedJob.submit(cluster, file), seen, create: (name) => writeFile(path.join(folder, name), '') };
}

const STARTED = 'generation 1: starts after nothing';
/** The records of a program that gets SIGTERM and has time for a checkpoint. */
const SAVED_ON_SIGNAL = [STARTED, 'generation 1: SIGTERM, should checkpoint False', 'generation 1: saved, should checkpoint False'];

async function sees({ seen }: Run, task: string, record: string): Promise<void> {
  await until(async () => (await seen(task)).includes(record), { describe: `${task}: ${record}` });
}

async function steps({ checkpointUri }: JobStatus): Promise<string[]> {
  const tree = await cluster.hdfsTree(new URL(checkpointUri).pathname);
  return tree.flatMap(({ path: name }) => (/\/step-\d+$/.test(name) ? [path.basename(name)] : [])).sort();
}

test('a program that endAfter or the end of the job stops gets SIGTERM, and saves a checkpoint', async () => {
  const run = await submit({
    roles: {
      worker: { command: 'while [ ! -e FOLDER/go ]; do sleep 0.1; done' },
      follower: { kind: 'independent', command: 'PROGRAM 1', endAfter: { role: 'worker' } },
      helper: { kind: 'sidecar', command: 'PROGRAM 2' },
    },
  });
  await sees(run, 'follower-0', STARTED);
  await sees(run, 'helper-0', STARTED);
  await run.create('go');
  const final = await run.job.ended();
  expect(final.state).toBe('succeeded');
  expect(await run.seen('follower-0')).toEqual(SAVED_ON_SIGNAL);
  expect(await run.seen('helper-0')).toEqual(SAVED_ON_SIGNAL);
  expect(await steps(final)).toEqual(['step-1', 'step-2']);
});

test('the programs of a job that fails get SIGTERM, and save a checkpoint', async () => {
  const run = await submit({
    roles: {
      worker: { command: 'PROGRAM 3' },
      other: { kind: 'independent', command: 'while [ ! -e FOLDER/go ]; do sleep 0.1; done; exit 3', restart: { policy: 'never' } },
    },
  });
  await sees(run, 'worker-0', STARTED);
  await run.create('go');
  const final = await run.job.ended();
  expect(final.state).toBe('failed');
  expect(await run.seen('worker-0')).toEqual(SAVED_ON_SIGNAL);
  expect(await steps(final)).toEqual(['step-3']);
});

test('a program at its time limit gets SIGTERM, and the next generation continues from the checkpoint that it saves', async () => {
  const run = await submit({ roles: { worker: { command: 'PROGRAM 7', timeout: '15s' } } });
  const restarted = 'generation 2: starts after 7';
  await sees(run, 'worker-0', restarted);
  await run.create('end');
  const final = await run.job.ended();
  expect(final).toMatchObject({ state: 'succeeded', generations: 2 });
  expect(final.tasks[0]?.failure?.cause.kind).toBe('time-limit');
  expect(await run.seen('worker-0')).toEqual([...SAVED_ON_SIGNAL, restarted]);
});

test('before the gang restarts, and before a kill ends the job, a program has the grace period of its role', async () => {
  const slow = { env: { SAVE_SECONDS: '6' } };
  const run = await submit({
    roles: {
      worker: { command: 'PROGRAM 4', gracePeriod: '60s', ...slow },
      other: { command: 'while [ ! -e FOLDER/go ]; do sleep 0.1; done; rm FOLDER/go; exit 3' },
      hasty: { kind: 'independent', command: 'PROGRAM 5', gracePeriod: '1s', ...slow },
    },
  });
  await sees(run, 'worker-0', STARTED);
  await sees(run, 'hasty-0', STARTED);
  await run.create('go');
  const restarted = 'generation 2: starts after 4';
  await sees(run, 'worker-0', restarted);
  expect(await run.seen('worker-0')).toEqual([...SAVED_ON_SIGNAL, restarted]);
  expect(await cluster.run(['kill', run.job.id, '--yes'])).toMatchObject({ exitCode: 0 });
  const final = await run.job.ended();
  expect(final).toMatchObject({ state: 'killed', message: `Killed by ${USER} with tony-ts kill.` });
  expect((await run.seen('worker-0')).slice(-2)).toEqual([
    'generation 2: SIGTERM, should checkpoint False',
    'generation 2: saved, should checkpoint False',
  ]);
  expect(await run.seen('hasty-0')).toEqual([STARTED, 'generation 1: SIGTERM, should checkpoint False']);
});

test('a job without remote access is killed at once', async () => {
  const run = await submit({
    remoteAccess: false,
    roles: { worker: { command: 'PROGRAM 8', env: { SAVE_SECONDS: '6' }, gracePeriod: '60s' } },
  });
  await sees(run, 'worker-0', STARTED);
  expect(await cluster.run(['kill', run.job.id, '--yes'])).toMatchObject({ exitCode: 0 });
  await cluster.ended(run.job.id);
  await noneLeft(cluster, run.job.id);
  expect(await run.seen('worker-0')).not.toContain('generation 1: saved, should checkpoint False');
});

test('before a preemption, should_checkpoint() is true, and the next generation continues from the checkpoint', async () => {
  const worker = { resources: { memory: '512m', gpus: 4 } };
  const run = await submit({ roles: { worker: { instances: 2, command: 'PROGRAM 5', ...worker } } });
  await sees(run, 'worker-0', STARTED);
  const fuller = await submit({
    queue: 'gpu',
    master: { resources: { memory: '512m' } },
    roles: { worker: { ...worker, command: 'PROGRAM 6' } },
  });
  await sees(fuller, 'worker-0', STARTED);
  await fuller.create('end');
  expect(await fuller.job.ended()).toMatchObject({ state: 'succeeded' });
  const restarted = 'generation 2: starts after 5';
  await sees(run, 'worker-0', restarted);
  await sees(run, 'worker-1', restarted);
  await run.create('end');
  expect(await run.job.ended()).toMatchObject({ state: 'succeeded', generations: 2, checkpointStep: 5 });
  // The program of a container that YARN does not take also gets SIGTERM before the next generation.
  const seen = await run.seen('worker-0');
  expect([...seen.slice(0, 3), seen.at(-1)]).toEqual([
    ...[STARTED, 'generation 1: should checkpoint True', 'generation 1: saved, should checkpoint False', restarted],
  ]);
});
