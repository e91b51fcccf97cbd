import fc from 'fast-check';
import { expect, test } from 'vitest';
import { containerEnd, describeExit, exitText, unusableFile } from './container-exit.ts';

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

test.each([
  [-105, 'stopped-by-master', 'the container was stopped by its ApplicationMaster (exit status -105)'],
  [-100, 'released', 'the container was released (exit status -100)'],
  [-100, 'node-lost', 'the node was lost (exit status -100)'],
  [3, 'exited', 'the container exited with 3'],
  [137, 'exited', 'the container was terminated by SIGKILL (exit 137)'],
] as const)('events explain exit status %i (%s) in words', (status, end, text) => {
  expect(exitText(status, end)).toBe(text);
});

test.each([-1000, -101, -102, -103, -104, -105, -106, -107, -108, -109])('the exit status %i of YARN has an explanation', (status) => {
  expect(exitText(status, containerEnd(status, ''))).not.toContain('exited with');
});

test("describes the cause without YARN's repetitions", () => {
  expect(describeExit(0, 'anything')).toBe('The container exited with 0.');
  expect(describeExit(137, '')).toBe('The container was terminated by SIGKILL (exit 137).');
  expect(
    describeExit(
      3,
      '[2026-11-20 10:11:12.345]Exception from container-launch.\nContainer id: container_1_0001_01_000002\nExit code: 3\n\n[2026-11-20 10:11:12.400]Container exited with a non-zero exit code 3. Error file: prelaunch.err.\nLast 4096 bytes of prelaunch.err :\n\n\n',
    ),
  ).toBe('The container exited with 3.');
  expect(describeExit(-104, '[2026-11-20 10:11:12.345]Container [pid=7] is running 12MB beyond the PHYSICAL memory limit.')).toBe(
    'The container was killed because it used more memory than it requested: Container [pid=7] is running 12MB beyond the PHYSICAL memory limit.',
  );
  // With cgroups, YARN's diagnostics name memory only if both elastic and strict control are on.
  expect(
    describeExit(
      137,
      '[2026-11-20 10:11:12.345]Container killed on request. Exit code is 137\n[2026-11-20 10:11:12.346]Container exited with a non-zero exit code 137. \n[2026-11-20 10:11:12.346]Killed by external signal\n',
    ),
  ).toBe('The container was terminated by SIGKILL (exit 137).');
  const underOom = 'container_1_0001_01_000002 is under oom because it exceeded its physical memory limit';
  expect(containerEnd(-104, underOom)).toBe('memory-exceeded');
  expect(describeExit(-104, underOom)).toBe(`The container was killed because it used more memory than it requested: ${underOom}`);
  expect(describeExit(-1000, 'File does not exist: hdfs://nn/x\n\tat org.apache.Foo.bar(Foo.java:1)\n')).toBe(
    'The container could not be launched: File does not exist: hdfs://nn/x',
  );
  expect(describeExit(-100, 'Container released on a *lost* node')).toBe('The node was lost.');
});

test('explains a file that was modified or removed after the submission', () => {
  // Diagnostics from Hadoop 3.4.3 and 3.1.
  const download =
    'Failed to download resource { { hdfs://localhost:19020/chg/a b.bin, 1795596918341, FILE, null },pending,[(container_1795596915687_0001_01_000002)],15595457888546,DOWNLOADING} ';
  const changed = `${download}java.io.IOException: Resource hdfs://localhost:19020/chg/a b.bin changed on src filesystem - expected: "2026-11-25T08:55:18.341+0000", was: "2026-11-25T08:55:20.079+0000", current time: "2026-11-25T08:55:21.881+0000"`;
  expect(unusableFile(describeExit(-1000, changed))).toMatch(/^hdfs:\/\/localhost:19020\/chg\/a b\.bin was modified after the submission/);
  expect(unusableFile('Resource hdfs://nn/a changed on src filesystem (expected 1, was 2')).toMatch(/^hdfs:\/\/nn\/a was modified/);
  const removed = `${download}java.io.FileNotFoundException: File does not exist: hdfs://localhost:19020/chg/a.bin`;
  expect(unusableFile(describeExit(-1000, removed))).toMatch(/^hdfs:\/\/localhost:19020\/chg\/a\.bin was removed/);
  expect(unusableFile('disk full')).toBeNull();
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
