import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { lacksLimits, queueRoomOf, queuesWithout, totalsOf } from './queue-room.ts';

/*
 * Recorded from a Hadoop 3.4.3 ResourceManager with two nodes (8 GiB, 8 vcores and 4 GPUs each) and the queues `default` and `gpu`. In
 * `gpu`, alice's job has three containers with one GPU each. Unused fields are removed.
 */
const answer: unknown = JSON.parse(readFileSync(new URL('../golden/scheduler-capacity.json', import.meta.url), 'utf8'));

test('reads a queue of the Capacity Scheduler with its parents', () => {
  const room = queueRoomOf(answer, 'gpu', 'alice');
  expect(room).toEqual({
    path: 'root.gpu',
    state: 'RUNNING',
    defaultLabel: '',
    runningApplications: 1,
    reservedContainers: 0,
    countsAll: true,
    memoryStep: 64,
    reaches: ['*'],
    labels: {
      '': {
        levels: [
          { path: 'root.gpu', maximum: { memory: 16384, vcores: 16, gpus: 8 }, used: { memory: 2560, vcores: 4, gpus: 3 } },
          { path: 'root', maximum: { memory: 16384, vcores: 16, gpus: 8 }, used: { memory: 2560, vcores: 4, gpus: 3 } },
        ],
        user: { maximum: { memory: 81920, vcores: 80, gpus: 40 }, used: { memory: 2560, vcores: 4, gpus: 3 } },
        masters: { maximum: { memory: 16384, vcores: 16, gpus: 8 }, used: { memory: 1024, vcores: 1, gpus: 0 } },
      },
    },
  });
  expect(queueRoomOf(answer, 'root.gpu', 'alice')).toEqual(room);
  expect(queueRoomOf(answer, 'gpu', 'bob')?.labels['']?.user?.used).toEqual({});
});

test('an idle queue does not reveal whether the scheduler counts all resource types', () => {
  expect(queueRoomOf(answer, 'default', 'alice')?.countsAll).toBeNull();
});

test('returns null for an unknown queue', () => {
  expect(queueRoomOf(answer, 'pu', 'alice')).toBeNull();
  expect(queueRoomOf(answer, 'root', 'alice')).toBeNull();
  for (const other of [null, '', {}, { scheduler: { schedulerInfo: { type: 'fifoScheduler' } } }]) {
    expect(queueRoomOf(other, 'default', 'alice')).toBeNull();
  }
});

test('lists the queues of a cluster only if the named queue certainly does not exist', () => {
  const without = (queue: object, name = 'rsearch') =>
    queuesWithout({ scheduler: { schedulerInfo: { type: 'capacityScheduler', ...queue } } }, name);
  const leaf = (queueName: string, autoCreationEligibility = 'off') => ({
    queueName,
    queuePath: `root.${queueName}`,
    autoCreationEligibility,
  });
  const root = { queueName: 'root', autoCreationEligibility: 'off', queues: { queue: [leaf('research'), leaf('gpu')] } };
  expect(without(root)).toEqual(['research', 'gpu']);
  expect(without(root, 'gpu')).toBeNull();
  expect(without(root, 'default')).toBeNull();
  expect(without({ ...root, queues: { queue: [leaf('research'), leaf('users', 'flexible')] } })).toBeNull();
  expect(without({ ...root, autoCreationEligibility: undefined })).toBeNull();
  expect(queuesWithout({ scheduler: { schedulerInfo: { type: 'fairScheduler' } } }, 'a')).toBeNull();
});

test('reads a queue of the Fair Scheduler', () => {
  const fair = {
    scheduler: {
      schedulerInfo: {
        type: 'fairScheduler',
        rootQueue: {
          queueName: 'root',
          maxResources: { memory: 16384, vCores: 16 },
          usedResources: { memory: 1024, vCores: 1 },
          childQueues: {
            queue: [
              { queueName: 'root.a', maxResources: { memory: 8192, vCores: 8 }, usedResources: { memory: 1024, vCores: 1 } },
              { queueName: 'root.b', maxResources: { memory: 8192, vCores: 8 }, usedResources: { memory: 0, vCores: 0 } },
            ],
          },
        },
      },
    },
  };
  expect(queueRoomOf(fair, 'a', 'alice')?.reaches).toEqual([]);
  expect(queueRoomOf(fair, 'a', 'alice')?.labels).toEqual({
    '': {
      levels: [
        { path: 'root.a', maximum: { memory: 8192, vcores: 8 }, used: { memory: 1024, vcores: 1 } },
        { path: 'root', maximum: { memory: 16384, vcores: 16 }, used: { memory: 1024, vcores: 1 } },
      ],
      user: null,
      masters: null,
    },
  });
});

test('derives the limits of a queue of Hadoop 2.10 from its percentages and the nodes', () => {
  // Recorded from a Hadoop 2.10.2 ResourceManager with two nodes and the queues `default` and `gpu`.
  const old: unknown = JSON.parse(readFileSync(new URL('../golden/capacity-scheduler-2.10.json', import.meta.url), 'utf8'));
  const total = { 'memory-mb': 8192, vcores: 8, 'yarn.io/gpu': 4 };
  const totals = totalsOf([
    { labels: [], total },
    { labels: [], total },
    { labels: ['fast'], total },
  ]);
  const room = queueRoomOf(old, 'gpu', 'alice');
  expect(room !== null && lacksLimits(room)).toBe(true);
  const maximum = { memory: 16_384, vcores: 16, gpus: 8 };
  const levels = queueRoomOf(old, 'gpu', 'alice', totals)?.labels['']?.levels;
  expect(levels).toMatchObject([
    { path: 'gpu', maximum },
    { path: 'root', maximum },
  ]);
});
