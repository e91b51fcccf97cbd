import { execFileSync } from 'node:child_process';
import { homedir } from 'node:os';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { commandJob } from './command-job.ts';

test('a command becomes a job with one worker, with the defaults of job.yaml', () => {
  const job = commandJob({ words: ['node', 'train.ts', '--rate', '0.1'] }, '/srv/code');
  expect(job).toMatchObject({
    name: 'node train.ts --rate 0.1',
    source: { path: '/srv/code', exclude: [] },
    framework: 'tfjs',
    roles: [{ name: 'worker', instances: 1, chief: true, command: 'node train.ts --rate 0.1', resources: { memoryMb: 2048, gpus: 0 } }],
  });
});

test('the name of a job omits the folder of the program', () => {
  expect(commandJob({ words: ['/opt/torch/bin/python3', 'src/train.py'], framework: 'pytorch' }, '/srv/code')).toMatchObject({
    name: 'python3 src-train.py',
  });
});

test('options set the resources, variables, framework, name and source; --set overrides them', () => {
  const job = commandJob(
    { words: ['true'], name: 'try', memory: '4g', vcores: 2, gpus: 1, env: ['A=b=c', 'N=1'], framework: 'none', source: 'none' },
    '/srv/code',
    { set: ['roles.worker.instances=3'] },
  );
  expect(job).toMatchObject({ name: 'try', source: null, framework: 'none', env: { A: 'b=c', N: '1' } });
  expect(job.roles).toMatchObject([{ instances: 3, resources: { memoryMb: 4096, vcores: 2, gpus: 1 } }]);
});

test('instances sets the number of workers', () => {
  expect(commandJob({ words: ['true'], instances: 2 }, '/srv/code').roles).toMatchObject([{ name: 'worker', instances: 2 }]);
});

test('one word is a shell command', () => {
  expect(commandJob({ words: ['echo $HOME && exit 3'] }, '/srv/code').roles[0]?.command).toBe('echo $HOME && exit 3');
});

test('several words reach the program unchanged', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: fc.constantFrom(...' \'"$\\*;a-é\n`!') }), { minLength: 1, maxLength: 4 }), (words) => {
      const { roles } = commandJob({ words: ['printf', '%s\\0', ...words] }, '/srv/code');
      expect(execFileSync('bash', ['-c', roles[0]?.command ?? '']).toString()).toBe(words.map((word) => `${word}\0`).join(''));
    }),
    { numRuns: 30 },
  );
});

test.each([
  [{ words: ['a'], env: ['=b'] }, '/srv/code', 'USAGE', '--env =b is not an assignment.'],
  [{ words: ['a'] }, homedir(), 'USAGE', 'tony-ts would upload the whole folder'],
  [{ words: ['a'], memory: 'much' }, '/srv/code', 'JOB_INVALID', 'expected a size such as 512m or 4g'],
  [{ words: ['a'], framework: 'torch' }, '/srv/code', 'JOB_INVALID', 'framework'],
])('rejects %o in %s with %s', (given, folder, code, message) => {
  expect(() => commandJob(given, folder)).toThrow(expect.objectContaining({ code, message: expect.stringContaining(message) }));
});
