import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder } from '../harness.ts';

test('the quickstart trains MNIST to at least 98 % with two local workers, and prints where the results are', async () => {
  const root = await temporaryFolder();
  const { stdout } = await execute(process.execPath, [path.join(ROOT, 'tools', 'quickstart.mjs')], {
    cwd: ROOT,
    env: { ...process.env, TONY_LOCAL_DIR: root, NO_COLOR: '1' },
    maxBuffer: 1 << 20,
  });
  expect(stdout).toMatch(/^step \d+ .*train\/loss \d/m);
  expect(stdout).toMatch(/^worker:1 succeeded/m);
  expect(Number(/^test accuracy: (\d+\.\d\d) %$/m.exec(stdout)?.[1])).toBeGreaterThanOrEqual(98);
  const checkpoints = /^checkpoints: file:\/\/(\S+) \(newest: step 938\)$/m.exec(stdout)?.[1] ?? '';
  expect(await readdir(checkpoints)).toContain('step-938');
  const summaries = /^summaries: file:\/\/(\S+)$/m.exec(stdout)?.[1] ?? '';
  expect((await readdir(summaries, { recursive: true })).some((name) => name.includes('events.out.tfevents'))).toBe(true);
});
