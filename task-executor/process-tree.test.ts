import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it, onTestFinished } from 'vitest';
import { ProcessTree, parseStat, readStat } from './process-tree.ts';

// From a Linux 6 kernel; the program chooses its own name.
const STAT =
  '4242 (a) b) R 17 4242 4242 0 -1 4194304 1093 0 0 0 150 50 0 0 20 0 1 0 987654 8445952 1024 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0';

it('parses a stat line with any program name', () => {
  expect(parseStat(STAT)).toEqual({
    pid: 4242,
    state: 'R',
    parent: 17,
    group: 4242,
    session: 4242,
    ticks: 200,
    startTime: 987_654,
    pages: 1024,
  });
  expect(parseStat('')).toBeNull();
  expect(parseStat('12 (x')).toBeNull();
  expect(readStat(0x7fffffff)).toBeNull();
});

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
  expect(usage.rssBytes).toBeGreaterThan(64 << 20);
  expect(usage.rssBytes).toBeLessThan(512 << 20);
  expect(usage.cpuCores).toBeGreaterThan(0);
  expect(usage.stopped).toBe(false);
  process.kill(root, 'SIGSTOP');
  await expect.poll(() => tree.sample(performance.now()).stopped).toBe(true);
});
