import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { JobStatus } from '../conf/status/status.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import { ROOT } from './command.ts';
import { jsonLines, noneLeft, USER, useCluster } from './harness.ts';

/**
 * examples/evaluation: an evaluator ends the training when its results no longer improve. The workers' code does not refer to the
 * evaluator.
 */

const cluster = useCluster();
const WORDS = ['submit', '--output', 'json', '--conf', path.join(ROOT, 'examples', 'evaluation', 'job.yaml')];
const EARLY_END = /^stopped early at step (\d+): (loss on held-out data did not improve for 5 evaluations; best [\d.e-]+ at step \d+)$/;

/** Number of steps for 1000 epochs of 2000 digits. In each step, the chief and the worker use 32 digits each. */
const ALL_STEPS = 32_000;

test('training ends early, and reports the reason and the best checkpoint', async () => {
  const { exitCode, stdout, stderr } = await cluster.run(WORDS);
  expect(exitCode, stderr + stdout).toBe(0);
  const result = jsonLines(stdout).find(({ type }) => type === 'result') as { id: string; state: string; message: string };
  expect(result).toMatchObject({ state: 'succeeded', message: expect.stringMatching(EARLY_END) });
  const { id: applicationId } = result;
  await noneLeft(cluster, applicationId);
  const storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(cluster.environment()), user: USER });
  onTestFinished(() => storage.close());
  const file = `/user/${USER}/.tony-ts/history/${applicationId}/final.json`;
  const final = JSON.parse((await cluster.hdfsRead(file)).toString()) as JobStatus;
  expect(final.tasks.map(({ role, index, state }) => `${role}:${index} ${state}`)).toEqual([
    'chief:0 succeeded',
    'worker:0 succeeded',
    'evaluator:0 succeeded',
  ]);
  const { checkpointUri, step, notices, metrics, message } = final;
  const read = async (name: string) => JSON.parse((await storage.read(`${checkpointUri}/${name}`)).toString('utf8')) as object;

  const [, ended, reason] = EARLY_END.exec(message) ?? [];
  expect(Number(ended), message).toBe(step);
  expect(step).toBeLessThan(ALL_STEPS);
  expect(final.checkpointStep).toBe(step);
  expect(await read('stop.json')).toMatchObject({ jobId: applicationId, reason, at: step });

  const best = (await read('best.json')) as { step: number; value: number };
  expect(best).toMatchObject({ metric: 'loss', mode: 'min' });
  const names = (await storage.list(checkpointUri)).map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining([`step-${best.step}`, `step-${step}`]));
  expect(best.step).toBeLessThan(step);
  expect(notices.at(-1)).toBe(`evaluator:0: the best checkpoint is ${checkpointUri}/step-${best.step}, with loss ${best.value}`);
  expect(metrics).toMatchObject({ 'evaluator/best_step': best.step, 'evaluator/best_loss': best.value });
  expect(metrics['evaluator/loss']).toBeGreaterThan(best.value);
  expect(metrics['evaluator/acc']).toBeGreaterThan(0.8);

  for (const task of final.tasks.filter(({ role }) => role !== 'evaluator')) {
    const phases = ['input', 'compute', 'exchange', 'update'].map((phase) => `profile/${phase}_ms`);
    expect(Object.keys(task.metrics), task.role).toEqual(expect.arrayContaining(phases));
    expect(task.metrics['profile/slowest_rank_ms']).toBeGreaterThan(0);
  }
  expect((await storage.list(final.summaryUri)).map(({ name }) => name)).toEqual(['evaluator', 'train']);
});
