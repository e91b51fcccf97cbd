import { cp, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test, vi } from 'vitest';
import type { JobStatus } from '../conf/status/status.ts';
import { ROOT } from './command.ts';
import { isAlive } from './executor/test-master.ts';
import { jsonLines, noneLeft, temporaryFolder, USER, until, useCluster } from './harness.ts';
import { MNIST, smallMnist } from './small-mnist.ts';

/** Runs examples/mnist on YARN and HDFS, and kills and suspends workers, executors and the ApplicationMaster during training. */

const cluster = useCluster();

/** Time limit in ms for a training with four starts on a slow machine. */
vi.setConfig({ testTimeout: 500_000 });

interface Training {
  readonly id: string;
  status(): Promise<JobStatus>;
  pid(index: number, generation: number): Promise<number>;
  goOn(): Promise<void>;
  /** [generation, step] of each step of rank 0, in execution order. */
  steps(): Promise<[number, number][]>;
  result(): Promise<{ state: string; metrics: Record<string, number>; generations: number; diagnostics: string }>;
}

interface TrainingOptions {
  readonly settings?: readonly string[];
  /** Step at which rank 0 waits until the test resumes it; all other ranks then wait for rank 0. By default, no rank waits. */
  readonly waitsAt?: number;
  /** Number of training examples, for 3 epochs. Default: all of MNIST, for 2 epochs. */
  readonly examples?: number;
}

/** Number of steps for all examples: 2 epochs of 60,000 examples in batches of 128. An undisturbed run reaches 98.4 % accuracy. */
const ALL_STEPS = 938;
/** Number of examples for 300 steps. Only tests that do not check the accuracy of a complete training use it. */
const FEW = { examples: 12_800, steps: 300 };

async function train({ settings = [], waitsAt = 0, examples }: TrainingOptions = {}): Promise<Training> {
  const folder = await temporaryFolder();
  const source = path.join(folder, 'mnist');
  await cp(path.join(ROOT, 'examples', 'mnist'), source, { recursive: true });
  const steps = path.join(folder, 'steps');
  const gate = path.join(folder, 'gate');
  const script = path.join(source, 'train.ts');
  const plain = await readFile(script, 'utf8');
  const watched = plain.replace(
    'epochs: 3, batchSize: 64 }',
    `epochs: ${examples === undefined ? 2 : 3}, batchSize: 64, callbacks: { onBatchEnd: (_, { step }) => watch(step) } }`,
  );
  expect(watched).not.toBe(plain);
  const own = `import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
async function watch(step: number) {
  if (cluster.rank !== 0) return;
  appendFileSync('${steps}', cluster.generation + ' ' + step + '\\n');
  while (step === ${waitsAt} && !existsSync('${gate}')) await delay(100);
}
`;
  const noted = `const { tf } = cluster;\nwriteFileSync('${folder}/' + cluster.index + '-' + cluster.generation, String(process.pid));`;
  await writeFile(script, `${own}${watched}`.replace('const { tf } = cluster;', noted));
  const words = ['submit', '--conf', path.join(source, 'job.yaml'), '--detach'];
  const sets = [
    `data.mnist=${examples === undefined ? MNIST : await smallMnist(examples)}`,
    'checkpoint.every=100',
    'heartbeat.interval=500ms',
    ...settings,
  ];
  const { stdout, stderr, exitCode } = await cluster.run([...words, ...sets.flatMap((each) => ['--set', each])]);
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
  const id = /application_\d+_\d+/.exec(stdout)?.[0] ?? '';
  const status = async (): Promise<JobStatus> => {
    const answer = await fetch(`${cluster.resourceManager}/proxy/${id}/tony/api/job?user.name=${USER}`, {
      signal: AbortSignal.timeout(10_000),
    });
    return (await answer.json()) as JobStatus;
  };
  return {
    id,
    status,
    pid: (index, generation) =>
      until(async () => Number(await readFile(path.join(folder, `${index}-${generation}`), 'utf8')), {
        describe: async () => ({ awaited: `worker ${index} in generation ${generation}`, status: await status().catch(String) }),
        timeoutMs: 120_000,
      }),
    goOn: () => writeFile(gate, ''),
    steps: async () => {
      const lines = (await readFile(steps, 'utf8')).trim().split('\n');
      return lines.map((line) => line.split(' ').map(Number) as [number, number]);
    },
    result: async () => {
      await cluster.ended(id, 300_000);
      const { stdout: lines } = await cluster.run(['status', id, '--output', 'json']);
      await noneLeft(cluster, id);
      const final = JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
      expect(jsonLines(lines).length).toBeGreaterThan(0);
      return { state: final.state, metrics: { ...final.metrics }, generations: final.generations, diagnostics: final.message };
    },
  };
}

async function checkpointBeyond(training: Training, step: number): Promise<number> {
  return until(
    async () => {
      const { checkpointStep } = await training.status();
      return checkpointStep > step && checkpointStep;
    },
    { describe: () => training.status().catch(String), timeoutMs: 120_000 },
  );
}

/** Waits until a generation has written a checkpoint that is newer than the checkpoint it started from, and returns its step. */
async function checkpointOf(training: Training, generation: number): Promise<number> {
  await training.pid(0, generation);
  const { checkpointStep } = await until(
    async () => (await training.steps()).some(([of]) => of === generation) && (await training.status()),
    { describe: () => training.status().catch(String), timeoutMs: 120_000 },
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

test('training resumes from the newest checkpoint after a killed executor, a killed program and a stopped program, and still reaches 98 % accuracy', async () => {
  const training = await train({ settings: ['checkpoint.keep=2'] });
  const known: number[] = [];
  known.push(await checkpointBeyond(training, 0));
  process.kill(await executorOf(training, 1), 'SIGKILL');
  known.push(await checkpointOf(training, 2));
  process.kill(await training.pid(0, 2), 'SIGKILL');
  known.push(await checkpointOf(training, 3));
  const stopped = await training.pid(1, 3);
  process.kill(stopped, 'SIGSTOP');
  await training.pid(0, 4);
  await until(() => !isAlive(stopped), { describe: 'the stopped program still exists', everyMs: 20 });
  const { notices } = await training.status();
  expect(notices.filter((notice) => notice.includes('resumes from')).length).toBeGreaterThan(0);
  const result = await training.result();
  expect(result).toMatchObject({ state: 'SUCCEEDED', generations: 4, diagnostics: '' });
  expect(result.metrics['test/accuracy']).toBeGreaterThanOrEqual(0.98);

  const steps = await training.steps();
  for (const generation of [1, 2, 3, 4]) {
    const own = steps.filter(([of]) => of === generation).map(([, step]) => step);
    // The steps are consecutive without repetition. They start after a checkpoint that is at least as new as the newest known one.
    expect(own).toEqual(own.map((_, at) => (own[0] as number) + at));
    expect(own[0]).toBeGreaterThan(generation === 1 ? 0 : (known[generation - 2] as number));
  }
  expect(steps.at(-1)).toEqual([4, ALL_STEPS]);
});

test('training continues without interruption when the ApplicationMaster is killed', async () => {
  const training = await train({ waitsAt: 150, examples: FEW.examples });
  await checkpointBeyond(training, 0);
  const programs = [await training.pid(0, 1), await training.pid(1, 1)];
  const isMaster = (command: string): boolean => /^(\S*runtime\/bin\/)?node .*application-master\.mjs/.test(command);
  const master = await until(async () => (await cluster.containers(training.id)).find(({ command }) => isMaster(command)), {
    describe: () => cluster.containers(training.id),
  });
  process.kill(master.pid, 'SIGKILL');
  await until(async () => (await training.status()).masterAttempt === 2, {
    describe: () => training.status().catch(String),
    timeoutMs: 90_000,
  });
  expect(programs.filter(isAlive)).toEqual(programs);
  await training.goOn();
  const result = await training.result();
  expect(result).toMatchObject({ state: 'SUCCEEDED', generations: 1, diagnostics: '' });
  expect(result.metrics['test/accuracy']).toBeGreaterThanOrEqual(0.9);
  const steps = (await training.steps()).map(([, step]) => step);
  expect(steps).toEqual(Array.from({ length: FEW.steps }, (_, at) => at + 1));
});

test('training skips truncated and corrupt checkpoints with a notice, and resumes from the previous checkpoint', async () => {
  const dir = `/user/${USER}/damaged-checkpoints`;
  const settings = [`checkpoint.dir=${cluster.defaultFs}${dir}`, 'checkpoint.keep=4'];
  const first = await train({ settings, examples: FEW.examples });
  expect((await first.result()).state).toBe('SUCCEEDED');
  const there = (await cluster.hdfsTree(dir))
    .filter(({ path: file }) => file.endsWith('/tensors-00000-of-00001.bin'))
    .map(({ path: file }) => file);
  const [newest = '', before = '', good = ''] = there.sort((a, b) => stepOf(b) - stepOf(a));
  await cluster.hdfsWrite(newest, (await cluster.hdfsRead(newest)).subarray(0, 1000));
  const flipped = await cluster.hdfsRead(before);
  flipped.writeUInt8(flipped.readUInt8(flipped.length >> 1) ^ 1, flipped.length >> 1);
  await cluster.hdfsWrite(before, flipped);

  const second = await train({ settings, examples: FEW.examples });
  const notices = await until(
    async () => {
      const status = await second.status();
      return status.notices.some((notice) => notice.includes('resumes from')) && status.notices;
    },
    { describe: () => second.status().catch(String), timeoutMs: 120_000 },
  );
  for (const damaged of [newest, before]) {
    expect(notices.some((notice) => notice.includes(`step-${stepOf(damaged)}`) && notice.includes('skipped'))).toBe(true);
  }
  expect(notices.some((notice) => notice.includes('resumes from') && notice.includes(`step ${stepOf(good)}`))).toBe(true);
  const result = await second.result();
  expect(result.state).toBe('SUCCEEDED');
  expect(result.metrics['test/accuracy']).toBeGreaterThanOrEqual(0.9);
  expect((await second.steps())[0]).toEqual([1, stepOf(good) + 1]);
});

function stepOf(file: string): number {
  return Number(/\/step-(\d+)\//.exec(file)?.[1]);
}
