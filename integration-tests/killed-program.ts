import { copyFile, cp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pino } from 'pino';
import { expect } from 'vitest';
import type { JobStatus } from '../conf/status/status.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import { ScalarReader } from '../web/scalars/scalar-reader.ts';
import { ROOT } from './command.ts';
import { execute } from './execute.ts';
import { noneLeft, type TestCluster, temporaryFolder, USER, until } from './harness.ts';
import { pythonWith } from './python-environment.ts';
import { smallMnist } from './small-mnist.ts';
import { tensorboardWriters } from './tensorboard-venv.ts';

/*
 * Trains an example in another language on YARN, and kills one program during training. The result must equal that of the same script
 * under the framework's own launcher.
 */

const EXAMPLES = 3_000;
export const STEPS = ['--steps', '150'];
export const PROGRAMS = path.join(ROOT, 'integration-tests', 'programs');

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
async function trainWithKill(
  cluster: TestCluster,
  { example, python, arguments: words, data, hasSummaries, packages }: FrameworkJob,
): Promise<JobStatus> {
  const source = path.join(await temporaryFolder(), example);
  await cp(path.join(ROOT, 'examples', example), source, { recursive: true });
  await copyFile(path.join(PROGRAMS, 'held.py'), path.join(source, 'held.py'));
  await rm(path.join(source, 'requirements.txt'), { force: true });
  const conf = path.join(source, 'job.yaml');
  await writeFile(conf, (await readFile(conf, 'utf8')).replace('python:\n  requirements: requirements.txt\n', ''));
  const command = [python, 'held.py', '50', 'train.py', ...words].join(' ');
  const sets = [`command=${command}`, `data.mnist=${data}`, 'checkpoint.everySteps=50', 'heartbeat.interval=500ms', 'runtime=system'];
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
    await expectLossOf(cluster, id);
  }
  const container = tasks.find(({ role, index }) => role === 'worker' && index === 1)?.containerId;
  const program = (await cluster.containers(id)).find(
    ({ containerId, command: words }) => containerId === container && words.startsWith(`${python} held.py`),
  );
  expect(program).toBeDefined();
  process.kill(program?.pid as number, 'SIGKILL');
  await cluster.ended(id);
  await noneLeft(cluster, id);
  return await finalStatus(cluster, id);
}

/** Waits until the TensorBoard of a job that has reached step 50 shows the loss, and compares its last value with the reported metric. */
async function expectLossOf(cluster: TestCluster, id: string): Promise<void> {
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
async function expectWholeCurve(cluster: TestCluster, { summaryUri }: JobStatus): Promise<void> {
  const storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(cluster.environment()), user: USER });
  const reader = new ScalarReader({ storage, dir: summaryUri, log: pino({ level: 'silent' }), maxWaitMs: 60_000 });
  try {
    const { runs } = await reader.charts();
    const curves = runs.map(({ name, scalars }) => [name, scalars.map(({ tag, steps }) => [tag, steps])]);
    const steps = Array.from({ length: 15 }, (_, index) => 10 * (index + 1));
    // The program writes `train`, and the executor writes the metrics that the program reports.
    expect(curves).toContainEqual(['train', [['loss', steps]]]);
    expect(curves).toContainEqual(['report', expect.arrayContaining([['loss', steps]])]);
  } finally {
    reader.close();
    storage.close();
  }
}

export async function finalStatus(cluster: TestCluster, id: string): Promise<JobStatus> {
  return JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
}

/** Parses the result that the example's rank 0 prints. */
function resultIn(stdout: string): { loss: number; accuracy: number } {
  return JSON.parse(/\{"steps".*\}/.exec(stdout)?.[0] ?? '{}') as { loss: number; accuracy: number };
}

/** Compares a job with a killed program with an undisturbed run of the same script, which `launch` starts without tony-ts. */
export async function compareWithLauncher(cluster: TestCluster, job: Omit<FrameworkJob, 'data'>, launch: readonly string[]): Promise<void> {
  const data = await smallMnist(EXAMPLES);
  const final = await trainWithKill(cluster, { ...job, data });
  expect(final).toMatchObject({ state: 'succeeded', generations: 2, checkpointStep: 150, message: '' });
  if (job.hasSummaries) {
    await expectWholeCurve(cluster, final);
  }
  const { stdout } = await execute(job.python, [...launch, 'train.py', '--data', data, ...job.arguments], {
    cwd: path.join(ROOT, 'examples', job.example),
    env: { ...process.env, ...(job.packages !== undefined && { PYTHONPATH: job.packages }) },
  });
  const plain = resultIn(stdout);
  expect(plain.accuracy).toBeGreaterThan(0.85);
  expect(final.metrics).toMatchObject({ 'test/loss': plain.loss, 'test/accuracy': plain.accuracy });
}

/** Compares a job of an example that installs a framework with two processes of the same script. */
export async function compareWithTwoProcesses(
  cluster: TestCluster,
  example: string,
  requirement: string,
  hasSummaries: boolean,
): Promise<void> {
  const python = await pythonWith(path.join(ROOT, '.cache', requirement.replace('==', '-')), [requirement]);
  await compareWithLauncher(cluster, { example, python, arguments: STEPS, hasSummaries }, [
    path.join(PROGRAMS, 'two-processes.py'),
    example,
  ]);
}
