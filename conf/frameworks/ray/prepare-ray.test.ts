import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { FrameworkTask } from '../framework.ts';
import { member } from '../testing/member.ts';
import { prepareRay } from './prepare-ray.ts';

const task: FrameworkTask = {
  jobId: 'application_1_0001',
  generation: 2,
  role: 'worker',
  index: 0,
  maxRestarts: 3,
  members: [member('head', 0, 0), member('worker', 0, 1), member('evaluator', 0, null)],
  host: 'node0',
  resources: { memoryMb: 2000, vcores: 3, gpus: 1 },
  servicePort: 0,
};

test("each task with a rank runs Ray with the container's resources, from a file that others cannot read", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'ray-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const command = await prepareRay(task, { command: 'python3 train.py', folder, programs: '/bundles' });
  const file = path.join(folder, 'ray-2.json');
  expect(command).toMatch(/^exec env NODE_OPTIONS= .* '?\/bundles\/ray\.mjs'? /);
  expect(command).toContain(file);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const memory = 2000 * 1024 * 1024;
  expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({
    command: 'python3 train.py',
    options: `--num-cpus=3 --num-gpus=1 --memory=${memory * 0.7} --object-store-memory=${memory * 0.3}`,
  });
});

test('a task without a rank runs the user command', async () => {
  const evaluator = { ...task, role: 'evaluator' };
  expect(await prepareRay(evaluator, { command: 'python3 eval.py', folder: '/nowhere', programs: '/nowhere' })).toBeNull();
});
