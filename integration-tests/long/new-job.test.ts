import path from 'node:path';
import { test } from 'vitest';
import { ROOT } from '../command.ts';
import { expectNewJobResumes } from '../new-job.ts';
import { pythonWith } from '../python-environment.ts';

test.each([
  { framework: 'tensorflow', requirement: 'tensorflow-cpu==2.21.0', model: 'model/model.keras' },
  { framework: 'jax', requirement: 'jax==0.10.2', model: 'model/model.npz' },
] as const)('the new job of init for $framework runs, resumes and keeps its model', async ({ framework, requirement, model }) => {
  const python = await pythonWith(path.join(ROOT, '.cache', requirement.replace('==', '-')), [requirement]);
  await expectNewJobResumes(framework, python, [model]);
});
