import { expect, test } from 'vitest';
import { jobStatus, orphanedContainer } from './job-status.fixture.ts';
import { orphanTexts } from './orphaned-containers.ts';

const texts = (containers: Parameters<typeof orphanedContainer>[0][], finishedAt: number | null = null, now = 1_000_000) =>
  orphanTexts(jobStatus({ orphanedContainers: containers.map(orphanedContainer), finishedAt }), now);

test('a text names the program, its lost node and its remaining time', () => {
  expect(texts([])).toEqual([]);
  expect(texts([{ mayRunForMs: 23_400 }])).toEqual([
    'worker:1 may still be running on node2:8041 for up to 24 s: YARN considers its container lost, and its executor is not reachable.',
  ]);
  expect(texts([{ attached: true }])).toEqual([
    'worker:1 may still be running on node2:8041: YARN considers its container lost; its executor was ordered to stop.',
  ]);
  expect(texts([{ index: null }])[0]).toMatch(/^a task of role worker may still be running on node2:8041 /);
});

test('there is one sentence per node, with the longest time and at most five names', () => {
  const two = [{ index: 0, mayRunForMs: 1_000 }, { index: 3, mayRunForMs: 90_000 }, { node: 'node3:8041' }];
  expect(texts(two)).toEqual([
    'worker:0 and worker:3 may still be running on node2:8041 for up to 1 min 30 s: YARN considers their containers lost, and their executors are not reachable.',
    expect.stringMatching(/^worker:1 may still be running on node3:8041 /),
  ]);
  const many = Array.from({ length: 12 }, (_, index) => ({ index, attached: true }));
  expect(texts(many)).toEqual([
    'worker:0, worker:1, worker:2, worker:3, worker:4 and 7 more may still be running on node2:8041: YARN considers their containers lost; their executors were ordered to stop.',
  ]);
});

test('after the end of the job, the time keeps running from its last status', () => {
  const left = (since: number) => texts([{ mayRunForMs: 60_000 }], 1_000_000, 1_000_000 + since);
  expect(left(20_000)[0]).toContain(' for up to 40 s: ');
  expect(left(60_000)).toEqual([]);
  expect(left(-5_000)[0]).toContain(' for up to 1 min: ');
});
