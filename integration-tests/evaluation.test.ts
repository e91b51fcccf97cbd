import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test, vi } from 'vitest';
import { localPaths } from '../client/files/local-layout.ts';
import type { JobStatus } from '../conf/status/status.ts';
import { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { ROOT, runCommand } from './command.ts';
import { jsonLines, noneLeft, temporaryFolder, USER, useCluster } from './harness.ts';

/**
 * examples/evaluation: an evaluator ends the training when its results no longer improve. The workers' code does not refer to the
 * evaluator.
 */

vi.setConfig({ testTimeout: 400_000 });

const cluster = useCluster();
const WORDS = ['submit', '--output', 'json', '--conf', path.join(ROOT, 'examples', 'evaluation', 'job.yaml')];
const EARLY_END = /^stopped early at step (\d+): (loss on held-out data did not improve for 5 evaluations; best [\d.e-]+ at step \d+)$/;

/** Number of steps for 1000 epochs of 2000 digits. In each step, the chief and the worker use 32 digits each. */
const ALL_STEPS = 32_000;

test('training on this machine ends early, and reports the reason and the best checkpoint', async () => {
  const root = await temporaryFolder();
  const { exitCode, stdout, stderr } = await runCommand([...WORDS, '--local'], { env: { TONY_LOCAL_DIR: root } });
  expect(exitCode, stderr + stdout).toBe(0);
  const storage = createStorage({ hadoop: null, user: USER });
  try {
    const id = idOf(stdout);
    const final = JSON.parse(await readFile(path.join(localPaths(root, id).history, 'final.json'), 'utf8')) as JobStatus;
    await expectEarlyEnd(id, final, storage);
  } finally {
    storage.close();
  }
});

test('training on a cluster ends early, with the same reports and checkpoints in HDFS', async () => {
  const { exitCode, stdout, stderr } = await cluster.run(WORDS, { timeoutMs: 390_000 });
  expect(exitCode, stderr + stdout).toBe(0);
  const id = idOf(stdout);
  await noneLeft(cluster, id);
  const storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(cluster.environment()), user: USER });
  try {
    const final = JSON.parse((await cluster.hdfsRead(`/user/${USER}/.tony-ts/history/${id}/final.json`)).toString()) as JobStatus;
    await expectEarlyEnd(id, final, storage);
  } finally {
    storage.close();
  }
});

function idOf(stdout: string): string {
  const result = jsonLines(stdout).find(({ type }) => type === 'result') as { applicationId: string; state: string; diagnostics: string };
  expect(result).toMatchObject({ state: 'SUCCEEDED', diagnostics: expect.stringMatching(EARLY_END) });
  return result.applicationId;
}

async function expectEarlyEnd(applicationId: string, final: JobStatus, storage: Storage): Promise<void> {
  expect(final.tasks.map(({ role, index, state }) => `${role}:${index} ${state}`)).toEqual([
    'chief:0 succeeded',
    'worker:0 succeeded',
    'evaluator:0 succeeded',
  ]);
  const { checkpointDir, step, notices, metrics, message } = final;
  const read = async (name: string) => JSON.parse((await storage.read(`${checkpointDir}/${name}`)).toString('utf8')) as object;

  const [, ended, reason] = EARLY_END.exec(message) ?? [];
  expect(Number(ended), message).toBe(step);
  expect(step).toBeLessThan(ALL_STEPS);
  expect(final.checkpointStep).toBe(step);
  expect(await read('stop.json')).toMatchObject({ applicationId, reason, at: step });

  const best = (await read('best.json')) as { step: number; value: number };
  expect(best).toMatchObject({ metric: 'loss', mode: 'min' });
  const names = (await storage.list(checkpointDir)).map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining([`step-${best.step}`, `step-${step}`]));
  expect(best.step).toBeLessThan(step);
  expect(notices.at(-1)).toBe(`evaluator:0: the best checkpoint is ${checkpointDir}/step-${best.step}, with loss ${best.value}`);
  expect(metrics).toMatchObject({ 'evaluator/best step': best.step, 'evaluator/best loss': best.value });
  expect(metrics['evaluator/loss']).toBeGreaterThan(best.value);
  expect(metrics['evaluator/acc']).toBeGreaterThan(0.8);

  for (const task of final.tasks.filter(({ role }) => role !== 'evaluator')) {
    const phases = ['input', 'compute', 'exchange', 'update'].map((phase) => `profile/${phase} ms`);
    expect(Object.keys(task.metrics), task.role).toEqual(expect.arrayContaining(phases));
    expect(task.metrics['profile/slowest rank ms']).toBeGreaterThan(0);
  }
  expect((await storage.list(final.summaryDir)).map(({ name }) => name)).toEqual(['evaluator', 'train']);
}
