import { copyFile, cp } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { jsonLines, temporaryFolder, useCluster } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';
import { smallMnist } from '../small-mnist.ts';
import { SubmittedJob } from './submitted-job.ts';

/** Runs examples/tensorflow-ps with the real TensorFlow: a chief, workers, parameter servers and an evaluator. */

const cluster = useCluster();
const EXAMPLE = path.join(ROOT, 'examples', 'tensorflow-ps');
const REQUIREMENT = 'tensorflow-cpu==2.21.0';
const python = await pythonWith(path.join(ROOT, '.cache', REQUIREMENT.replace('==', '-')), [REQUIREMENT]);

interface Evaluated {
  readonly steps: number;
  readonly 'test/loss': number;
  readonly 'test/accuracy': number;
}

/** Submits the example. In its first generation, the chief blocks after the checkpoint of step `hold`. */
async function submit(data: string, hold: number, sets: readonly string[] = []): Promise<SubmittedJob> {
  const source = path.join(await temporaryFolder(), 'tensorflow-ps');
  await cp(EXAMPLE, source, { recursive: true });
  await copyFile(path.join(ROOT, 'integration-tests', 'programs', 'held.py'), path.join(source, 'held.py'));
  return await SubmittedJob.submit(cluster, path.join(source, 'job.yaml'), [
    `command=${python} held.py ${hold} train.py --steps 150`,
    `roles.evaluator.command=${python} evaluate.py`,
    ...[`data.mnist=${data}`, 'checkpoint.everySteps=50', 'runtime=system', 'heartbeat.interval=500ms', ...sets],
  ]);
}

function evaluatedIn(output: string): Evaluated[] {
  return [...output.matchAll(/\{"steps".*\}/g)].map(([line]) => JSON.parse(line) as Evaluated);
}

test('after a parameter server was killed, the training resumes, and the job ends with the chief and the evaluator', async () => {
  const job = await submit(await smallMnist(3_000), 50);
  const held = await job.reaches(({ checkpointStep, tasks }) => {
    return checkpointStep === 50 && tasks.some(({ role, step }) => role === 'evaluator' && step === 50);
  });
  expect(held.tasks.map(({ role, state }) => [role, state])).toEqual(
    ['chief', 'worker', 'worker', 'ps', 'ps', 'evaluator'].map((role) => [role, 'running']),
  );
  const [server] = await job.processes(held, 'ps', 1, `${python} held.py`);
  process.kill(server as number, 'SIGKILL');
  const final = await job.ended();
  expect(final).toMatchObject({ state: 'succeeded', generations: 2, checkpointStep: 150, message: '' });
  expect(final.tasks.map(({ role, state, generation }) => [role, state, generation])).toEqual([
    ['chief', 'succeeded', 2],
    ...[0, 1].map(() => ['worker', 'stopped', 2]),
    ...[0, 1].map(() => ['ps', 'stopped', 2]),
    ['evaluator', 'succeeded', 1],
  ]);
  const output = await job.output();
  expect(output).toContain('the chief resumes after step 50');
  const evaluated = evaluatedIn(output);
  expect(evaluated.map(({ steps }) => steps)).toEqual(expect.arrayContaining([50, 150]));
  const last = evaluated.at(-1) as Evaluated;
  expect(last['test/accuracy']).toBeGreaterThan(0.8);
  expect(final.metrics).toMatchObject({ 'test/loss': last['test/loss'], 'test/accuracy': last['test/accuracy'] });
});

test('with one worker, the job has the result of the script alone', async () => {
  const data = await smallMnist(3_000);
  const job = await submit(data, 0, ['roles.worker.instances=1']);
  const final = await job.ended();
  expect(final).toMatchObject({ state: 'succeeded', generations: 1, checkpointStep: 150 });
  const { stdout } = await execute(python, ['train.py', '--data', data, '--steps', '150'], {
    cwd: EXAMPLE,
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
  });
  const alone = jsonLines(stdout).at(-1) as unknown as Evaluated;
  expect(final.metrics['test/loss']).toBeCloseTo(alone['test/loss'], 5);
  expect(final.metrics['test/accuracy']).toBeCloseTo(alone['test/accuracy'], 3);
});
