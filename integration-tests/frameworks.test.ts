import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, cp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { beforeAll, expect, test } from 'vitest';
import { ensureTensorBoard } from '../client/python/ensure-tensorboard.ts';
import type { JobStatus } from '../conf/status/status.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import { ScalarReader } from '../web/scalars/scalar-reader.ts';
import { ROOT } from './command.ts';
import { noneLeft, temporaryFolder, USER, until, useCluster } from './harness.ts';
import { pythonThatImports, pythonWith } from './python-environment.ts';
import { smallMnist } from './small-mnist.ts';
import { tensorboardWriters } from './tensorboard-venv.ts';
import { PROGRAM_HANGS_MS } from './until.ts';

/**
 * Trains with frameworks for other languages on YARN. One program is killed during training. The result must equal that of the same script
 * under the framework's own launcher.
 */

const cluster = useCluster();
beforeAll(async () => {
  await ensureTensorBoard();
});

const execute = promisify(execFile);
const EXAMPLES = 3_000;
const PROGRAMS = path.join(ROOT, 'integration-tests', 'programs');
/** PyTorch for the system's Python; null if the machine has none. */
const pytorch = await pythonThatImports('torch');
/** Horovod for the same Python, from `npm run horovod`. */
const HOROVOD = path.join(ROOT, '.cache', 'horovod');

interface FrameworkJob {
  readonly example: string;
  readonly python: string;
  readonly arguments: readonly string[];
  readonly data: string;
  /** Whether the example writes the loss for TensorBoard. */
  readonly hasSummaries: boolean;
  /** Folder of Python packages in addition to those of the interpreter. */
  readonly packages?: string;
}

/**
 * Submits an example whose first generation blocks after its first checkpoint, and kills the program of worker 1 there. The job uses the
 * packages of `python`. The test of the examples in `long` ships the packages with the job.
 */
async function trainWithKill({ example, python, arguments: words, data, hasSummaries, packages }: FrameworkJob): Promise<JobStatus> {
  const source = path.join(await temporaryFolder(), example);
  await cp(path.join(ROOT, 'examples', example), source, { recursive: true });
  await copyFile(path.join(PROGRAMS, 'held.py'), path.join(source, 'held.py'));
  await rm(path.join(source, 'requirements.txt'), { force: true });
  const conf = path.join(source, 'job.yaml');
  await writeFile(conf, (await readFile(conf, 'utf8')).replace('python:\n  requirements: requirements.txt\n', ''));
  const command = [python, 'held.py', '50', 'train.py', ...words].join(' ');
  const sets = [`command=${command}`, `data.mnist=${data}`, 'checkpoint.every=50', 'heartbeat.interval=500ms', 'runtime=system'];
  if (hasSummaries) {
    sets.push('tensorboard=true', `env.PYTHONPATH=${await tensorboardWriters(python)}`);
  } else if (packages !== undefined) {
    sets.push(`env.PYTHONPATH=${packages}`);
  }
  const submitted = await cluster.run([...['submit', '--conf', conf, '--detach'], ...sets.flatMap((each) => ['--set', each])]);
  expect(submitted).toMatchObject({ stderr: '', exitCode: 0 });
  const id = /application_\d+_\d+/.exec(submitted.stdout)?.[0] ?? '';
  const { tasks } = await cluster.reached(id, ({ checkpointStep }) => checkpointStep === 50);
  if (hasSummaries) {
    await expectLossOf(id);
  }
  const container = tasks.find(({ role, index }) => role === 'worker' && index === 1)?.containerId;
  const program = (await cluster.containers(id)).find(
    ({ containerId, command: words }) => containerId === container && words.startsWith(`${python} held.py`),
  );
  expect(program).toBeDefined();
  process.kill(program?.pid as number, 'SIGKILL');
  await cluster.ended(id);
  await noneLeft(cluster, id);
  return await finalStatus(id);
}

/** Waits until the TensorBoard of a job that has reached step 50 shows the loss, and compares its last value with the reported metric. */
async function expectLossOf(id: string): Promise<void> {
  const address = `${cluster.resourceManager}/proxy/${id}/data/plugin/scalars/scalars?tag=loss&run=train&user.name=${USER}`;
  const look = async () => {
    const answer = await fetch(address, { signal: AbortSignal.timeout(30_000) });
    const points = answer.ok ? ((await answer.json()) as [number, number, number][]) : [];
    return points.length === 5 && points.map(([, step, value]) => ({ step, value }));
  };
  const points = await until(look, { describe: () => cluster.jobStatus(id).catch(String), everyMs: 500 });
  const { metrics } = await cluster.jobStatus(id);
  expect(points.map(({ step }) => step)).toEqual([10, 20, 30, 40, 50]);
  expect(points.at(-1)?.value).toBe(metrics.loss);
}

/** Checks that the summaries contain the loss of all steps, also of those directly before the program has ended. */
async function expectWholeCurve({ summaryDir }: JobStatus): Promise<void> {
  const storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(cluster.environment()), user: USER });
  const reader = new ScalarReader({ storage, dir: summaryDir, log: pino({ level: 'silent' }), maxWaitMs: 60_000 });
  try {
    const { runs } = await reader.charts();
    const curves = runs.map(({ name, scalars }) => [name, scalars.map(({ tag, steps }) => [tag, steps])]);
    expect(curves).toEqual([['train', [['loss', Array.from({ length: 15 }, (_, index) => 10 * (index + 1))]]]]);
  } finally {
    reader.close();
    storage.close();
  }
}

async function finalStatus(id: string): Promise<JobStatus> {
  return JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
}

/** Parses the result that the example's rank 0 prints. */
function resultIn(stdout: string): { loss: number; accuracy: number } {
  return JSON.parse(/\{"steps".*\}/.exec(stdout)?.[0] ?? '{}') as { loss: number; accuracy: number };
}

/** Compares a job with a killed program with an undisturbed run of the same script, which `launch` starts without tony-ts. */
async function compare(job: Omit<FrameworkJob, 'data'>, launch: readonly string[]): Promise<void> {
  const data = await smallMnist(EXAMPLES);
  const final = await trainWithKill({ ...job, data });
  expect(final).toMatchObject({ state: 'SUCCEEDED', generations: 2, checkpointStep: 150, message: '' });
  if (job.hasSummaries) {
    await expectWholeCurve(final);
  }
  const { stdout } = await execute(job.python, [...launch, 'train.py', '--data', data, ...job.arguments], {
    cwd: path.join(ROOT, 'examples', job.example),
    env: { ...process.env, ...(job.packages !== undefined && { PYTHONPATH: job.packages }) },
    timeout: PROGRAM_HANGS_MS,
  });
  const plain = resultIn(stdout);
  expect(plain.accuracy).toBeGreaterThan(0.85);
  expect(final.metrics).toMatchObject({ testLoss: plain.loss, accuracy: plain.accuracy });
}

/** Fails in its first generation, after one complete and one half-written checkpoint. Then resumes from the complete one. */
const SYNCED = `
  set -e
  if [ $TONY_GENERATION = 1 ]; then
    if [ $TONY_RANK = 1 ]; then sleep 600; fi
    mkdir ckpt/step-10 && echo ten > ckpt/step-10/weights && touch ckpt/step-10.done
    mkdir ckpt/step-20 && echo half > ckpt/step-20/weights
    exit 3
  fi
  [ "$(echo ckpt/*)" = "ckpt/step-10 ckpt/step-10.done" ]
  echo "$(cat ckpt/step-10/weights), thirty" > ckpt/model-30.bin && touch ckpt/model-30.bin.done`;

test('checkpoint.sync stores only complete checkpoints, and restores the newest one for all tasks', async () => {
  const file = path.join(await temporaryFolder(), 'job.yaml');
  const command = SYNCED.trim().replace(/^\s*/gm, '  ');
  const job = 'checkpoint: {sync: ckpt, keep: 1}\nroles: {worker: {instances: 2, resources: {memory: 512m}}}';
  await writeFile(file, `name: synced\nframework: none\nruntime: system\nheartbeat: {interval: 300ms}\n${job}\ncommand: |\n${command}\n`);
  const submitted = await cluster.run(['submit', '--conf', file, '--detach']);
  expect(submitted).toMatchObject({ stderr: '', exitCode: 0 });
  const id = /application_\d+_\d+/.exec(submitted.stdout)?.[0] ?? '';
  await cluster.ended(id);
  const final = await finalStatus(id);
  expect(final).toMatchObject({ state: 'SUCCEEDED', generations: 2, checkpointStep: 30 });
  const folder = new URL(final.checkpointDir).pathname;
  const steps = (await cluster.hdfsTree(folder)).filter(({ path: name }) => /\/step-\d+$/.test(name));
  // The generation keeps the checkpoint that it has started from.
  expect(steps).toHaveLength(2);
  expect((await cluster.hdfsRead(`${folder}/step-30/model-30.bin`)).toString()).toBe('ten, thirty\n');
});

const STEPS = ['--steps', '150'];

test.skipIf(pytorch === null)('PyTorch: a job with a killed program has the result of an undisturbed run under torchrun', async () => {
  await compare({ example: 'pytorch', python: pytorch as string, arguments: STEPS, hasSummaries: true }, [
    path.join(PROGRAMS, 'elastic-launch.py'),
  ]);
});

test.skipIf(pytorch === null || !existsSync(HOROVOD))(
  'Horovod: a job with a killed program has the result of an undisturbed run under horovodrun',
  async () => {
    const python = pytorch as string;
    const launch = ['-m', 'horovod.runner.launch', '--gloo', '-np', '2', '--network-interfaces', 'lo', python];
    await compare({ example: 'horovod', python, arguments: STEPS, hasSummaries: false, packages: HOROVOD }, launch);
  },
);

test.each([
  { title: 'TensorFlow', example: 'tensorflow', requirement: 'tensorflow-cpu==2.21.0', hasSummaries: true },
  { title: 'JAX', example: 'jax', requirement: 'jax==0.10.2', hasSummaries: false },
])(
  '$title: a job with a killed program has the result of an undisturbed run of two processes',
  async ({ example, requirement, hasSummaries }) => {
    const python = await pythonWith(path.join(ROOT, '.cache', requirement.replace('==', '-')), [requirement]);
    await compare({ example, python, arguments: STEPS, hasSummaries }, [path.join(PROGRAMS, 'two-processes.py'), example]);
  },
);
