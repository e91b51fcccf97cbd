import { cp } from 'node:fs/promises';
import path from 'node:path';
import { expect, test, vi } from 'vitest';
import { ROOT } from '../command.ts';
import { temporaryFolder, useCluster } from '../harness.ts';
import { MNIST } from '../small-mnist.ts';
import { SubmittedJob } from './submitted-job.ts';

/** Runs examples without changes on nodes that have only Python 3: the jobs ship their packages. */

vi.setConfig({ testTimeout: 1_200_000 });
const cluster = useCluster();

test.each([
  ['scikit-learn', /^best: \{/m],
  ['jax', /"accuracy": 0\.[89]/],
  ['tensorflow', /"accuracy": 0\.[89]/],
  ['tensorflow-ps', /"accuracy": 0\.[89]/],
])('examples/%s succeeds in its first generation', async (example, result) => {
  const source = path.join(await temporaryFolder(), example);
  await cp(path.join(ROOT, 'examples', example), source, { recursive: true });
  const data = example === 'scikit-learn' ? [] : [`data.mnist=${MNIST}`];
  const job = await SubmittedJob.submit(cluster, path.join(source, 'job.yaml'), data);
  const final = await job.ended(900_000);
  expect(final).toMatchObject({ state: 'succeeded', generations: 1, message: '' });
  expect(await job.output()).toMatch(result);
});
