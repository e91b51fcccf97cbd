import { expect, test } from 'vitest';
import type { UsageSample } from '../../../../conf/status/status.ts';
import { usageLines, withSamples } from './usage-history.ts';

function sample(at: number, memory: Readonly<Record<string, number>>): UsageSample {
  const tasks = Object.entries(memory).map(([task, memoryBytes]) => ({
    task,
    step: 0,
    memoryBytes,
    cpuCores: 1,
    gpuUtilization: task === 'worker:0' ? 0.5 : null,
    gpuMemoryBytes: null,
  }));
  return { at, tasks };
}

const SAMPLES = [sample(1, { 'worker:0': 10, 'worker:1': 30, 'ps:0': 5 }), sample(2, { 'worker:1': 40 })];

test('each task has one line, with gaps where it has no sample', () => {
  expect(usageLines(SAMPLES, 'memory', 'tasks', '')).toEqual([
    { name: 'ps:0', values: [5, null] },
    { name: 'worker:0', values: [10, null] },
    { name: 'worker:1', values: [30, 40] },
  ]);
  expect(usageLines(SAMPLES, 'gpu', 'tasks', '')).toEqual([{ name: 'worker:0', values: [50, null] }]);
});

test('each role has one line', () => {
  expect(usageLines(SAMPLES, 'memory', 'mean', 'worker')).toEqual([{ name: 'worker', values: [20, 40] }]);
  expect(usageLines(SAMPLES, 'memory', 'highest', 'worker')).toEqual([{ name: 'worker', values: [30, 40] }]);
  expect(usageLines(SAMPLES, 'memory', 'sum', '')).toEqual([
    { name: 'ps', values: [5, null] },
    { name: 'worker', values: [40, 40] },
  ]);
  expect(usageLines(SAMPLES, 'memory', 'mean', 'worker:1')).toEqual([{ name: 'worker:1', values: [30, 40] }]);
});

test('duplicate samples are dropped, and old samples are thinned while the newest stay', () => {
  const known = withSamples([], [sample(1, {}), sample(2, {})]);
  expect(withSamples(known, [sample(2, {})])).toBe(known);
  let samples: readonly UsageSample[] = [];
  for (let at = 0; at < 5_000; at++) {
    samples = withSamples(samples, [sample(at, {})]);
  }
  expect(samples.length).toBeLessThanOrEqual(1_200);
  expect(samples.slice(-100).map(({ at }) => at)).toEqual(Array.from({ length: 100 }, (_, index) => 4_900 + index));
  expect(samples[0]?.at).toBe(0);
});
