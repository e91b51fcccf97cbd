import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { type CapacityQueue, capacitySchedulerSchema } from './capacity-queues.ts';

/** Recorded from a Hadoop 3.4 ResourceManager with two nodes, one of which has the label a100. Unused fields are removed. */
const GOLDEN: unknown = JSON.parse(await readFile(new URL('../golden/capacity-scheduler.json', import.meta.url), 'utf8'));

test('parses the queue tree with the settings of each queue', () => {
  const root = capacitySchedulerSchema.parse(GOLDEN);
  const lines = (queue: CapacityQueue): string[] => [
    `${queue.path} ${queue.mode} submit [${queue.submitters}] labels ${queue.labels} ${queue.partitions.map(({ label, capacity, maximumCapacity }) => `${label}:${capacity.toFixed(1)}/${maximumCapacity.toFixed(0)}`).join(' ')}`,
    ...queue.children.flatMap(lines),
  ];
  expect(root === null ? [] : lines(root)).toEqual([
    'root percentage submit [ ] labels * :100.0/100 a100:100.0/100',
    'root.default percentage submit [*] labels * :40.0/60 a100:30.0/100',
    'root.research percentage submit [ ] labels * :60.0/100 a100:70.0/100',
    'root.research.a percentage submit [*] labels * :33.3/100 a100:50.0/100',
    'root.research.b percentage submit [alice research] labels * :66.7/100 a100:50.0/100',
  ]);
});

test('a capacity that differs between resources is not a percentage, even if the ResourceManager reports that mode', () => {
  const scheduler = (reported: { mode?: string; sizes?: readonly string[] }) => {
    const answer = structuredClone(GOLDEN) as { scheduler: { schedulerInfo: { queues: { queue: Record<string, unknown>[] } } } };
    const [first] = answer.scheduler.schedulerInfo.queues.queue;
    if (first === undefined) {
      throw new Error('no queue');
    }
    if (reported.mode !== undefined) {
      first.mode = reported.mode;
    }
    const [partition] = (first.capacities as { queueCapacitiesByPartition: Record<string, unknown>[] }).queueCapacitiesByPartition;
    if (reported.sizes !== undefined && partition !== undefined) {
      partition.queueCapacityVectorInfo = {
        capacityVectorEntries: reported.sizes.map((resourceValue) => ({ resourceName: 'a', resourceValue })),
      };
    }
    return capacitySchedulerSchema.parse(answer)?.children[0]?.mode;
  };
  expect([scheduler({ mode: 'mixed' }), scheduler({ mode: 'unknown' })]).toEqual(['differing', 'differing']);
  expect(scheduler({ sizes: ['40.0%', '60.0%', '0.0'] })).toBe('differing');
  expect(scheduler({ sizes: ['40.0%', '40.0%', '40.0%'] })).toBe('percentage');
  expect(scheduler({ mode: 'absolute', sizes: ['1024.0', '1.0'] })).toBe('absolute');
});

test('returns null for another scheduler', () => {
  expect(capacitySchedulerSchema.parse({ scheduler: { schedulerInfo: { type: 'fairScheduler', rootQueue: {} } } })).toBe(null);
});

test('an error names the path of an invalid field', () => {
  const answer = { scheduler: { schedulerInfo: { type: 'capacityScheduler', queueName: 'root' } } };
  expect(capacitySchedulerSchema.safeParse(answer).error?.issues.map(({ path }) => path.join('.'))).toContain('queuePath');
});
