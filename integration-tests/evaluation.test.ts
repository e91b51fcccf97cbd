import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { localPaths } from '../client/local-layout.ts';
import type { JobStatus } from '../conf/status.ts';
import { ROOT, runCommand } from './command.ts';
import { jsonLines, temporaryFolder } from './harness.ts';

const URI = /file:\/\/(\S+)/;

test('an evaluator ends the training of a chief and a worker that learns no more, and names the best checkpoint', async () => {
  const root = await temporaryFolder();
  const words = ['submit', '--local', '--output', 'json', '--conf', path.join(ROOT, 'examples', 'evaluation', 'job.yaml')];
  const { exitCode, stdout, stderr } = await runCommand(words, { env: { TONY_LOCAL_DIR: root } });
  expect(exitCode, stderr + stdout).toBe(0);
  const result = jsonLines(stdout).find(({ type }) => type === 'result') as { applicationId: string; state: string };
  expect(result.state).toBe('SUCCEEDED');
  const { history } = localPaths(root, result.applicationId);
  const final = JSON.parse(await readFile(path.join(history, 'final.json'), 'utf8')) as JobStatus;
  expect(final.tasks.map(({ role, index, state }) => `${role}:${index} ${state}`)).toEqual([
    'chief:0 succeeded',
    'worker:0 succeeded',
    'evaluator:0 succeeded',
  ]);

  // The chief, which has rank 0, says why training has ended; the evaluator what was best.
  const ending =
    /^chief:0: training ends early, with step (\d+): (loss on held-out data has not improved in 5 checkpoints; it was best .*)$/;
  const [, step, reason] = final.notices.map((notice) => ending.exec(notice)).find((match) => match !== null) ?? [];
  expect(Number(step), final.notices.join('\n')).toBe(final.step);
  expect(final.step).toBeLessThan(10_000);
  expect(final.checkpointStep).toBe(final.step);
  const [, dir = ''] = URI.exec(final.checkpointDir) ?? [];
  expect(JSON.parse(await readFile(path.join(dir, 'stop.json'), 'utf8'))).toMatchObject({
    applicationId: result.applicationId,
    reason,
    at: final.step,
  });

  const best = JSON.parse(await readFile(path.join(dir, 'best.json'), 'utf8')) as { step: number; value: number };
  expect(best).toMatchObject({ metric: 'loss', mode: 'min' });
  expect(await readdir(dir)).toEqual(expect.arrayContaining([`step-${best.step}`, `step-${final.step}`]));
  expect(best.step).toBeLessThan(final.step);
  expect(final.notices.at(-1)).toBe(
    `evaluator:0: the best checkpoint is ${final.checkpointDir}/step-${best.step}, with loss ${best.value}`,
  );
  expect(final.metrics).toMatchObject({ 'evaluator/best step': best.step, 'evaluator/best loss': best.value });
  expect(final.metrics['evaluator/loss']).toBeGreaterThan(best.value);
  expect(final.metrics['evaluator/acc']).toBeGreaterThan(0.8);

  // Why it was as slow as it was: each rank's own profile, and which one held up the others.
  for (const { role, metrics } of final.tasks.filter((task) => task.role !== 'evaluator')) {
    expect(Object.keys(metrics), role).toEqual(
      expect.arrayContaining(['profile/input ms', 'profile/compute ms', 'profile/exchange ms', 'profile/update ms']),
    );
    expect(metrics['profile/slowest rank ms']).toBeGreaterThan(0);
  }
  const [, summaries = ''] = URI.exec(final.summaryDir) ?? [];
  expect((await readdir(summaries)).sort()).toEqual(['evaluator', 'train']);
});
