import fc from 'fast-check';
import { expect, test } from 'vitest';
import { taskStatus } from '../../conf/status/job-status.fixture.ts';
import type { UsageSample } from '../../conf/status/status.ts';
import { sampleOf, UsageHistory } from './usage-history.ts';

function sample(at: number, tasks = 1, load = 1): UsageSample {
  const gpu = { gpuUtilization: null, gpuMemoryBytes: null };
  return {
    at,
    tasks: Array.from({ length: tasks }, (_, index) => ({ task: `worker:${index}`, step: at, memoryBytes: at, cpuCores: load, ...gpu })),
  };
}

test('samples the usage of live tasks', () => {
  const gpus = [
    { index: 0, utilization: 0.5, memoryUsedBytes: 10, memoryTotalBytes: 20 },
    { index: 1, utilization: 1, memoryUsedBytes: 5, memoryTotalBytes: 20 },
  ];
  const usage = { memoryBytes: 7, cpuCores: 1.23456, gpus, stopped: false };
  expect(sampleOf([taskStatus({ usage, step: 3 }), taskStatus({ index: 1 })], 9)).toEqual({
    at: 9,
    tasks: [{ task: 'worker:0', step: 3, memoryBytes: 7, cpuCores: 1.235, gpuUtilization: 0.75, gpuMemoryBytes: 15 }],
  });
});

test('covers the whole job with a limited number of samples, however long the job runs', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5000 }), fc.integer({ min: 1, max: 400 }), (length, tasks) => {
      const history = new UsageHistory();
      for (let at = 1; at <= length; at++) {
        history.add(sample(at, tasks));
      }
      const { samples, next } = history.page(0);
      const most = Math.min(1000, 20_000 / tasks);
      expect(samples.length).toBeLessThanOrEqual(most);
      expect(samples.length).toBeGreaterThanOrEqual(Math.min(length, Math.floor(most / 2)) - 1);
      expect(next).toBe(length);
      expect(samples.at(-1)?.at).toBe(length);
      const gaps = samples.slice(1, -1).map(({ at }, index) => at - (samples[index]?.at ?? 0));
      expect(Math.max(0, ...gaps)).toBeLessThanOrEqual(2 * Math.min(length, ...gaps));
      expect(samples.every((each) => each.tasks.every(({ cpuCores }) => cpuCores === 1))).toBe(true);
    }),
    { numRuns: 6 },
  );
});

test('averages the CPU load and keeps the maximum of memory', () => {
  const history = new UsageHistory();
  for (let at = 1; at <= 1001; at++) {
    history.add(sample(at, 1, at % 2));
  }
  const [first] = history.page(0).samples;
  expect(first).toEqual({ at: 2, tasks: [{ ...sample(2).tasks[0], cpuCores: 0.5 }] });
});

test('a viewer receives only new samples, and a merge keeps tasks that have ended', () => {
  const history = new UsageHistory();
  history.add(sample(1, 2));
  history.add(sample(2, 1));
  expect(history.page(1)).toEqual({ samples: [sample(2, 1)], next: 2 });
  expect(history.page(2)).toEqual({ samples: [], next: 2 });
  history.prepend(Array.from({ length: 1000 }, (_, at) => sample(at - 2000, 1)));
  expect(
    history.samples
      .at(-1)
      ?.tasks.map(({ task }) => task)
      .sort(),
  ).toEqual(['worker:0', 'worker:1']);
});
