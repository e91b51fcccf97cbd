import { expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { notebookJobText } from './notebook-job.ts';
import { parseServer } from './run-notebook.ts';

const load = (text: string) => parseJob(text, { file: 'job.yaml', folder: '/home/alice' });
const options = { idleMs: 3_600_000, source: null };

test('a notebook without a job file has one task that runs JupyterLab', () => {
  const { name, framework, source, roles } = load(notebookJobText(null, options));
  expect({ name, framework, source }).toEqual({ name: 'notebook', framework: 'none', source: null });
  expect(roles).toMatchObject([
    {
      name: 'notebook',
      instances: 1,
      command: 'exec python3 -m tony._notebook 3600',
      resources: { memoryMb: 4096 },
      restart: { policy: 'never' },
    },
  ]);
});

const JOB = `
name: mnist
queue: research
framework: pytorch
env: {LEVEL: 1}
command: python train.py
checkpoint: {everySteps: 7}
successPolicy: chief
roles:
  worker: {instances: 4, resources: {memory: 8g, gpus: 2}, env: {OWN: w}, restart: {maxRestarts: 9}}
  evaluator: {resources: {memory: 3g}}
`;

test('a notebook shares the environment and the source of a job, and the resources of its first role', () => {
  const job = load(notebookJobText(JOB, { ...options, source: { path: '/home/alice/code', exclude: ['*.log'] } }));
  expect(job).toMatchObject({
    name: 'mnist notebook',
    queue: 'research',
    framework: 'pytorch',
    env: { LEVEL: '1' },
    source: { path: '/home/alice/code', exclude: ['*.log'] },
  });
  expect(job.roles).toMatchObject([{ name: 'notebook', instances: 1, resources: { memoryMb: 8192, gpus: 2 }, env: { OWN: 'w' } }]);
});

test('takes also the settings that the job has for every role', () => {
  const text = JOB.replace('roles:\n', 'roles:\n  "*": {nodeLabel: gpu, resources: {vcores: 3}, env: {OWN: all}}\n');
  expect(load(notebookJobText(text, options)).roles).toMatchObject([
    { name: 'notebook', nodeLabel: 'gpu', resources: { memoryMb: 8192, vcores: 3 }, env: { OWN: 'w' } },
  ]);
});

test('selects a role, and rejects an unknown one', () => {
  expect(load(notebookJobText(JOB, { ...options, role: 'evaluator' })).roles).toMatchObject([{ resources: { memoryMb: 3072, gpus: 0 } }]);
  expect(() => notebookJobText(JOB, { ...options, role: 'ps' })).toThrow(
    expect.objectContaining({ hint: 'Its roles are worker, evaluator.' }),
  );
});

test('reads the description of a running server', () => {
  expect(parseServer('{"port": 8889, "token": "abc", "pid": 7}')).toEqual({ port: 8889, token: 'abc' });
  expect(['', '{', '{"port": 8889}', '{"port": "x", "token": "abc"}', '[]'].map(parseServer)).toEqual([null, null, null, null, null]);
});

test('variables keep their spelling', () => {
  const { env, roles } = load(notebookJobText('name: a\ncommand: c\nenv: {V: 1.50}\nroles: {worker: {env: {W: 010}}}\n', options));
  expect([env, roles[0]?.env]).toEqual([{ V: '1.50' }, { W: '010' }]);
});
