import fc from 'fast-check';
import { expect, test } from 'vitest';
import { containerEnd, describeExit } from './container-exit.ts';

test.each([
  [0, '', 'exited'],
  [3, '', 'exited'],
  [137, '', 'exited'],
  [143, '', 'exited'],
  [-1000, 'File does not exist', 'launch-failed'],
  [-100, 'Container released by application', 'released'],
  [-100, 'Container of a completed application', 'released'],
  [-100, 'Container expired since it was unused', 'expired'],
  [-100, 'Container released on a *lost* node', 'node-lost'],
  [-101, '', 'disks-failed'],
  [-102, '', 'preempted'],
  [-103, '', 'memory-exceeded'],
  [-104, '', 'memory-exceeded'],
  [-105, '', 'stopped-by-master'],
  [-106, '', 'preempted'],
  [-108, '', 'preempted'],
])('exit status %i with "%s" means %s', (status, diagnostics, end) => {
  expect(containerEnd(status, diagnostics)).toBe(end);
});

test("describes the cause without YARN's repetitions", () => {
  expect(describeExit(0, 'anything')).toBe('The container exited with 0.');
  expect(describeExit(137, '')).toBe('The container was ended by SIGKILL (exit 137).');
  expect(
    describeExit(
      3,
      '[2026-11-20 10:11:12.345]Exception from container-launch.\nContainer id: container_1_0001_01_000002\nExit code: 3\n\n[2026-11-20 10:11:12.400]Container exited with a non-zero exit code 3. Error file: prelaunch.err.\nLast 4096 bytes of prelaunch.err :\n\n\n',
    ),
  ).toBe('The container exited with 3.');
  expect(describeExit(-104, '[2026-11-20 10:11:12.345]Container [pid=7] is running 12MB beyond the PHYSICAL memory limit.')).toBe(
    'The container was killed because it used more memory than it requested: Container [pid=7] is running 12MB beyond the PHYSICAL memory limit.',
  );
  expect(describeExit(-1000, 'File does not exist: hdfs://nn/x\n\tat org.apache.Foo.bar(Foo.java:1)\n')).toBe(
    'The container could not be launched: File does not exist: hdfs://nn/x',
  );
  expect(describeExit(-100, 'Container released on a *lost* node')).toBe('The node was lost: Container released on a *lost* node');
});

test('describes any status and diagnostics in one bounded line', () => {
  fc.assert(
    fc.property(fc.integer(), fc.string(), (status, diagnostics) => {
      const text = describeExit(status, diagnostics);
      expect(text).not.toMatch(/[\r\n]/);
      expect(text.length).toBeLessThan(800);
    }),
  );
});
