import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { localPaths } from '../../client/files/local-layout.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { ROOT, runCommand } from '../command.ts';
import { jsonLines, temporaryFolder } from '../harness.ts';

test('two workers learn to classify names from two lists, including names that are in neither', async () => {
  const root = await temporaryFolder();
  const words = ['submit', '--local', '--output', 'json', '--conf', path.join(ROOT, 'examples', 'text', 'job.yaml')];
  const { exitCode, stdout, stderr } = await runCommand(words, { env: { TONY_LOCAL_DIR: root } });
  expect(exitCode, stderr + stdout).toBe(0);
  const { id: applicationId } = jsonLines(stdout).find(({ type }) => type === 'result') as { id: string };
  const { history } = localPaths(root, applicationId);
  const final = JSON.parse(await readFile(path.join(history, 'final.json'), 'utf8')) as JobStatus;
  expect(final.tasks.map(({ role, index, state }) => `${role}:${index} ${state}`)).toEqual(['worker:0 succeeded', 'worker:1 succeeded']);
  // 8849 names minus the held-out tenth, three epochs, and batches of 64 on each of two ranks.
  expect(final.step).toBeGreaterThan(180);
  expect(final.step).toBeLessThan(195);
  // A model that always predicts the more frequent class reaches 56 %.
  expect(final.metrics['val/acc']).toBeGreaterThan(0.75);
});
