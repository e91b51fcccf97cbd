import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { initCommand } from './init.ts';

test('init prints paths quoted for the shell, ready to copy', async () => {
  const root = mkdtempSync(join(tmpdir(), 'tony-ts-init-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  onTestFinished(() => write.mockRestore());
  const folder = join(root, "it's a job");
  const others = { workers: undefined, gpus: undefined, queue: undefined, _: [], $0: 'tony-ts' };
  await initCommand.handler({ folder, name: 'a', yes: true, ...others });
  const printed = write.mock.calls.map(([text]) => String(text)).join('');
  expect(printed).toContain(`tony-ts submit --local --conf '${root}/it'\\''s a job/job.yaml'\n`);
  expect(printed).toContain(`'${root}/it'\\''s a job/train.ts'`);
});
