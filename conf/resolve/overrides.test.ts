import { expect, test } from 'vitest';
import { parseJob } from './load-job.ts';

const JOB = 'name: n\nframework: none\nsource: null\ncommand: echo hi\nroles: {worker: {instances: 1}}\n';
const rolesWith = (...set: string[]): string[] => parseJob(JOB, { file: 'job.yaml', folder: '/job', set }).roles.map(({ name }) => name);

test('a misspelt role is a mistake, and does not add a role', () => {
  expect(() => rolesWith('roles.wroker.instances=2')).toThrow(
    '--set roles.wroker.instances=2: the job has no role wroker; did you mean worker?',
  );
});

test('--set adds a role with another name, or with all of its keys', () => {
  expect(rolesWith('roles.evaluator.instances=1')).toEqual(['worker', 'evaluator']);
  expect(rolesWith('roles.workers={instances: 1}')).toEqual(['worker', 'workers']);
  expect(rolesWith('roles.workers={instances: 1}', 'roles.workers.instances=2')).toEqual(['worker', 'workers']);
});
