import { test } from 'vitest';
import { expectNewJobResumes } from '../new-job.ts';
import { pythonThatImports } from '../python-environment.ts';

const pytorch = await pythonThatImports('torch');

test('the new job of init without a framework runs and resumes', async () => {
  await expectNewJobResumes('none', 'python3', []);
});

test.skipIf(pytorch === null)('the new job of init for PyTorch runs, resumes and keeps its model', async () => {
  await expectNewJobResumes('pytorch', pytorch as string, ['model/model.pt']);
});
