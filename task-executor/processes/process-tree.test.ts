import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it, onTestFinished } from 'vitest';
import { ProcessTree } from './process-tree.ts';

it('counts a whole process tree, including sessions of its descendants', async () => {
  const script =
    "require('child_process').spawn('sleep', ['1000'], { detached: true }).unref(); const b = Buffer.alloc(64 << 20, 1); console.log('up'); setInterval(() => b, 1000)";
  const child = spawn(process.execPath, ['-e', script], { detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
  const root = child.pid as number;
  const tree = new ProcessTree(root, performance.now());
  let members: readonly number[] = [];
  onTestFinished(() => {
    for (const pid of members) {
      process.kill(pid, 'SIGKILL');
    }
  });
  await once(child.stdout, 'data');
  members = tree.members();
  expect(members).toHaveLength(2);
  expect(members).toContain(root);
  const usage = tree.sample(performance.now());
  expect(usage.memoryBytes).toBeGreaterThan(64 << 20);
  expect(usage.memoryBytes).toBeLessThan(512 << 20);
  expect(usage.cpuCores).toBeGreaterThan(0);
  expect(usage.stopped).toBe(false);
  process.kill(root, 'SIGSTOP');
  await expect.poll(() => tree.sample(performance.now()).stopped).toBe(true);
});
