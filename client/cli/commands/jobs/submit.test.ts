import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { jobLoader } from './submit.ts';

test.each([
  [{ instances: 2 }, '--set roles.worker.instances=2'],
  [{ memory: '4g' }, '--set roles.worker.resources.memory=4g'],
  [{ framework: 'pytorch' }, '--set framework=pytorch'],
])('an option for a command is refused for a job file, with the assignment that sets it: %j', async (options, hint) => {
  await expect(jobLoader({ jobFile: 'job.yaml', ...options })).rejects.toMatchObject({
    code: 'USAGE',
    hint: `For a job file, write ${hint}.`,
  });
});

test('--instances sets the number of workers that run a command', async () => {
  const load = await jobLoader({ command: ['x'], instances: 2, source: 'none', framework: 'none' });
  expect(await load({})).toMatchObject({ roles: [{ name: 'worker', instances: 2 }] });
});

test('options override the values of the job file, and those that --set gives', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-submit-test-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const jobFile = path.join(folder, 'job.yaml');
  await writeFile(jobFile, 'name: a\nframework: none\nsource: null\ncommand: x\nenv: {A: "0", D: d}\nroles: {worker: {}}\n');
  const load = await jobLoader({ jobFile, name: 'x: y', queue: 'ml', env: ['A=1', 'B=two "words"', 'C=x=y'] });
  expect(await load({ set: ['name=z', 'env.E=e'] })).toMatchObject({
    name: 'x: y',
    queue: 'ml',
    env: { A: '1', B: 'two "words"', C: 'x=y', D: 'd', E: 'e' },
  });
  const ofCommand = await jobLoader({ command: ['x'], name: 'n', queue: 'ml', env: ['A=1'], source: 'none', framework: 'none' });
  expect(await ofCommand({})).toMatchObject({ name: 'n', queue: 'ml', env: { A: '1' } });
});
