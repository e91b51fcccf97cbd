import { expect, test } from 'vitest';
import { placementNotes } from './yarn-submission.ts';

test.each([
  ['default', 'default'],
  ['default', 'root.default'],
  ['root.a.gpu', 'gpu'],
  ['gpu', 'root.a.gpu'],
])('queue %s is the same as %s, in which the job is', (queue, placed) => {
  expect(placementNotes({ queue, priority: 3 }, { queue: placed, priority: 3 })).toEqual([]);
});

test('names the queue and the priority that the ResourceManager chose', () => {
  expect(placementNotes({ queue: 'default', priority: 50 }, { queue: 'root.users.alice', priority: 10 })).toEqual([
    "YARN's placement rules put the job in queue root.users.alice instead of default.",
    "YARN lowered the job's priority from 50 to 10, the maximum of the cluster (yarn.cluster.max-application-priority) or of the queue.",
  ]);
});

test('a priority that the ResourceManager raises is no note', () => {
  expect(placementNotes({ queue: 'default', priority: 0 }, { queue: 'default', priority: 2 })).toEqual([]);
});
