import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { loadJob } from '../../../../conf/resolve/load-job.ts';
import { initJob } from '../../../job/new-job.ts';
import { runCommandLine } from '../../command-line.ts';

test('init prints paths quoted for the shell, ready to copy', async () => {
  const root = mkdtempSync(join(tmpdir(), 'tony-ts-init-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  onTestFinished(() => write.mockRestore());
  const folder = join(root, "it's a job");
  await runCommandLine(['init', folder, '--name', 'a', '--yes']);
  const printed = write.mock.calls.map(([text]) => String(text)).join('');
  expect(printed).toContain(`tony-ts submit --local --conf '${root}/it'\\''s a job/job.yaml'\n`);
  expect(printed).toContain(`'${root}/it'\\''s a job/train.ts'`);
});

test.each(['2026', 'true', '1.50', '010', 'job: one', 'null', '1e10', 'a b'])(
  'the name %s and an equal queue arrive unchanged',
  async (name) => {
    const folder = mkdtempSync(join(tmpdir(), 'tony-ts-init-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    await initJob(folder, { name, queue: name, instances: 1, gpus: 0 });
    expect(await loadJob(join(folder, 'job.yaml'))).toMatchObject({ name, queue: name });
  },
);

test.each(['tfjs', 'pytorch', 'tensorflow', 'jax', 'none'] as const)(
  'the new job for %s is valid, with its framework',
  async (framework) => {
    const folder = mkdtempSync(join(tmpdir(), 'tony-ts-init-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const files = await initJob(folder, { name: 'a', queue: 'default', instances: 3, gpus: 1, framework });
    expect(files).toEqual(['job.yaml', framework === 'tfjs' ? 'train.ts' : 'train.py', '.tonyignore']);
    const { roles, framework: loaded } = await loadJob(join(folder, 'job.yaml'));
    expect(loaded).toBe(framework);
    expect(roles).toMatchObject([{ instances: 3, resources: { gpus: 1 } }]);
  },
);

test('init asks for no framework that it has no program for', async () => {
  await expect(runCommandLine(['init', '--framework', 'horovod', '--yes'])).rejects.toMatchObject({ code: 'USAGE' });
});

test.each(['a #b', 'x/y'])('the name %s is refused before a file is written', async (name) => {
  const folder = join(tmpdir(), 'tony-ts-no-such-folder');
  await expect(initJob(folder, { name, queue: 'default', instances: 1, gpus: 0 })).rejects.toMatchObject({
    code: 'JOB_INVALID',
    message: expect.stringContaining('the new job.yaml:2:7  name: may contain only letters'),
    hint: 'Choose another value. No file was written.',
  });
  expect(existsSync(folder)).toBe(false);
});

test.each(['a: b', '{x}', `${'a '.repeat(80)}b`, 'a"b'])('the queue %j is one value of the new job.yaml', async (queue) => {
  const folder = mkdtempSync(join(tmpdir(), 'tony-ts-init-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  await initJob(folder, { name: 'a', queue, instances: 1, gpus: 0 });
  expect(await loadJob(join(folder, 'job.yaml'))).toMatchObject({ queue });
});

test('init refuses an empty folder name', async () => {
  await expect(runCommandLine(['init', '', '--yes'])).rejects.toMatchObject({ code: 'USAGE' });
});
