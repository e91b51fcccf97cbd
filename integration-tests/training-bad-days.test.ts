import { cp, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { JobStatus } from '../conf/status/status.ts';
import { ROOT } from './command.ts';
import { isAlive } from './executor/test-master.ts';
import { jsonLines, noneLeft, temporaryFolder, USER, until, useCluster } from './harness.ts';
import { MNIST } from './small-mnist.ts';

/** Runs examples/mnist on YARN and HDFS, and kills and suspends workers, executors and the ApplicationMaster during training. */

const cluster = useCluster();

/** Time limit in ms for a training with four starts on a slow machine. */
interface Training {
  readonly id: string;
  status(): Promise<JobStatus>;
  pid(index: number, generation: number): Promise<number>;
  goOn(): Promise<void>;
  /** [generation, step] of each step of rank 0, in execution order. */
  steps(): Promise<[number, number][]>;
  result(): Promise<{ state: string; metrics: Record<string, number>; generations: number; masterAttempt: number; message: string }>;
}

/** Number of steps for all examples: 1 epoch of 60,000 examples in batches of 128. An undisturbed run reaches 98.1 % accuracy. */
const ALL_STEPS = 469;
/** Step at which rank 0 of generation 4 waits until the test resumes it. The other rank waits for rank 0. */
const WAITS_AT = 440;

async function train(settings: readonly string[]): Promise<Training> {
  const folder = await temporaryFolder();
  const source = path.join(folder, 'mnist');
  await cp(path.join(ROOT, 'examples', 'mnist'), source, { recursive: true });
  const steps = path.join(folder, 'steps');
  const gate = path.join(folder, 'gate');
  const script = path.join(source, 'train.ts');
  const plain = await readFile(script, 'utf8');
  const watched = plain.replace(
    'epochs: 2, batchSize: 64 }',
    'epochs: 1, batchSize: 64, callbacks: { onBatchEnd: (_, { step }) => watch(step) } }',
  );
  expect(watched).not.toBe(plain);
  const own = `import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
async function watch(step: number) {
  if (cluster.rank !== 0) return;
  appendFileSync('${steps}', cluster.generation + ' ' + step + '\\n');
  while (cluster.generation === 4 && step === ${WAITS_AT} && !existsSync('${gate}')) await delay(100);
}
`;
  const noted = `const { tf } = cluster;\nwriteFileSync('${folder}/' + cluster.index + '-' + cluster.generation, String(process.pid));`;
  await writeFile(script, `${own}${watched}`.replace('const { tf } = cluster;', noted));
  const words = ['submit', '--conf', path.join(source, 'job.yaml'), '--detach'];
  const sets = [`data.mnist=${MNIST}`, 'checkpoint.everySteps=50', 'heartbeat.interval=500ms', ...settings];
  const { stdout, stderr, exitCode } = await cluster.run([...words, ...sets.flatMap((each) => ['--set', each])]);
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
  const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
  const status = () => cluster.jobStatus(id);
  return {
    id,
    status,
    pid: (index, generation) =>
      until(async () => Number(await readFile(path.join(folder, `${index}-${generation}`), 'utf8')), {
        describe: async () => ({ awaited: `worker ${index} in generation ${generation}`, status: await status().catch(String) }),
      }),
    goOn: () => writeFile(gate, ''),
    steps: async () => {
      const lines = (await readFile(steps, 'utf8')).trim().split('\n');
      return lines.map((line) => line.split(' ').map(Number) as [number, number]);
    },
    result: async () => {
      await cluster.ended(id);
      const { stdout: lines } = await cluster.run(['status', id, '--output', 'json']);
      await noneLeft(cluster, id);
      const final = JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
      expect(jsonLines(lines).length).toBeGreaterThan(0);
      const { state, generations, masterAttempt, message } = final;
      return { state, metrics: { ...final.metrics }, generations, masterAttempt, message };
    },
  };
}

async function checkpointBeyond(training: Training, step: number): Promise<number> {
  const { checkpointStep } = await cluster.reached(training.id, (status) => status.checkpointStep > step);
  return checkpointStep;
}

/** Waits until a generation has written a checkpoint that is newer than the checkpoint it started from, and returns its step. */
async function checkpointOf(training: Training, generation: number): Promise<number> {
  await training.pid(0, generation);
  const { checkpointStep } = await until(
    async () => (await training.steps()).some(([of]) => of === generation) && (await training.status()),
    { describe: () => training.status().catch(String) },
  );
  return checkpointBeyond(training, checkpointStep);
}

async function executorOf(training: Training, index: number): Promise<number> {
  const task = (await training.status()).tasks.find(({ role, index: other }) => role === 'worker' && other === index);
  const processes = await cluster.containers(training.id);
  const found = processes.find(
    ({ command, containerId }) =>
      containerId === task?.containerId && /node .*task-executor\.mjs/.test(command) && !command.startsWith('/bin/bash'),
  );
  if (found === undefined) {
    throw new Error(`no executor of worker ${index} in ${JSON.stringify(processes, null, 1)}`);
  }
  return found.pid;
}

test('training resumes from the newest checkpoint after each failure, still reaches 97.5 % accuracy, and later skips damaged checkpoints', async () => {
  const dir = `/user/${USER}/damaged-checkpoints`;
  const settings = [`checkpoint.dir=${cluster.defaultFs}${dir}`, 'checkpoint.keep=4'];
  const training = await train(settings);
  const known: number[] = [];
  known.push(await checkpointBeyond(training, 0));
  process.kill(await executorOf(training, 1), 'SIGKILL');
  known.push(await checkpointOf(training, 2));
  process.kill(await training.pid(0, 2), 'SIGKILL');
  known.push(await checkpointOf(training, 3));
  const stopped = await training.pid(1, 3);
  process.kill(stopped, 'SIGSTOP');
  const programs = [await training.pid(0, 4), await training.pid(1, 4)];
  await until(() => !isAlive(stopped), { describe: 'the stopped program still exists', everyMs: 20 });
  const { notices } = await training.status();
  expect(notices.filter((notice) => notice.includes('resumes from')).length).toBeGreaterThan(0);
  await continuesWithAnotherMaster(training, programs);
  const result = await training.result();
  expect(result).toMatchObject({ state: 'succeeded', generations: 4, masterAttempt: 2, message: '' });
  expect(result.metrics['test/accuracy']).toBeGreaterThanOrEqual(0.975);

  const steps = await training.steps();
  for (const generation of [1, 2, 3, 4]) {
    const own = steps.filter(([of]) => of === generation).map(([, step]) => step);
    // The steps are consecutive without repetition. They start after a checkpoint that is at least as new as the newest known one.
    expect(own).toEqual(own.map((_, at) => (own[0] as number) + at));
    expect(own[0]).toBeGreaterThan(generation === 1 ? 0 : (known[generation - 2] as number));
  }
  expect(steps.at(-1)).toEqual([4, ALL_STEPS]);
  await skipsDamagedCheckpoints(dir, settings);
});

/** Kills the ApplicationMaster while rank 0 waits, and expects that the next one takes over the same programs. */
async function continuesWithAnotherMaster(training: Training, programs: readonly number[]): Promise<void> {
  await until(async () => (await training.steps()).at(-1)?.[1] === WAITS_AT, {
    describe: () => training.status().catch(String),
  });
  const isMaster = (command: string): boolean => /^(\S*runtime\/bin\/)?node .*application-master\.mjs/.test(command);
  const master = await until(async () => (await cluster.containers(training.id)).find(({ command }) => isMaster(command)), {
    describe: () => cluster.containers(training.id),
  });
  process.kill(master.pid, 'SIGKILL');
  await cluster.reached(training.id, ({ masterAttempt }) => masterAttempt === 2);
  expect(programs.filter(isAlive)).toEqual(programs);
  await training.goOn();
}

/** Truncates the newest checkpoint of the ended training and changes one bit of the one before. The next training resumes from the third. */
async function skipsDamagedCheckpoints(dir: string, settings: readonly string[]): Promise<void> {
  const there = (await cluster.hdfsTree(dir))
    .filter(({ path: file }) => file.endsWith('/tensors-00000-of-00001.bin'))
    .map(({ path: file }) => file);
  const [newest = '', before = '', good = ''] = there.sort((a, b) => stepOf(b) - stepOf(a));
  await cluster.hdfsWrite(newest, (await cluster.hdfsRead(newest)).subarray(0, 1000));
  const flipped = await cluster.hdfsRead(before);
  flipped.writeUInt8(flipped.readUInt8(flipped.length >> 1) ^ 1, flipped.length >> 1);
  await cluster.hdfsWrite(before, flipped);

  const training = await train(settings);
  const { notices } = await cluster.reached(training.id, (status) => status.notices.some((notice) => notice.includes('resumes from')));
  for (const damaged of [newest, before]) {
    expect(notices.some((notice) => notice.includes(`step-${stepOf(damaged)}`) && notice.includes('skipped'))).toBe(true);
  }
  expect(notices.some((notice) => notice.includes('resumes from') && notice.includes(`step ${stepOf(good)}`))).toBe(true);
  const result = await training.result();
  expect(result.state).toBe('succeeded');
  expect(result.metrics['test/accuracy']).toBeGreaterThanOrEqual(0.975);
  expect((await training.steps())[0]).toEqual([1, stepOf(good) + 1]);
}

function stepOf(file: string): number {
  return Number(/\/step-(\d+)\//.exec(file)?.[1]);
}
