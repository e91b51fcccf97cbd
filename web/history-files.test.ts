import { expect, test } from 'vitest';
import { historyFileName, historyFiles, parseEntries, parseSamples } from './history-files.ts';

test('history files are listed in the order of their attempts', () => {
  const names = ['job.json', 'events-10.jsonl', 'events-2.jsonl', 'metrics-1.jsonl', 'events-x.jsonl', 'events-0.jsonl', 'final.json'];
  expect(historyFiles(names, 'events').map(({ name, attempt }) => [name, attempt])).toEqual([
    ['events-2.jsonl', 2],
    ['events-10.jsonl', 10],
  ]);
  expect(historyFiles(names, 'metrics')).toEqual([{ name: historyFileName('metrics', 1), attempt: 1 }]);
});

test('truncated, empty and invalid lines are skipped', () => {
  const entry = { at: 5, type: 'x', role: 'worker', index: 0 };
  expect(parseEntries(`${JSON.stringify(entry)}\n\nnull\n[]\n{"at":1}\n{"at":6,"eve`)).toEqual([entry]);
  const sample = { at: 5, tasks: [] };
  expect(parseEntries(JSON.stringify({ ...entry, more: 'x' }))).toEqual([entry]);
  expect(parseSamples(`${JSON.stringify(sample)}\n{"at":6,"tasks":3}\n{"a`)).toEqual([sample]);
});

test('a sample keeps only entries that name a task', () => {
  const task = { task: 'worker:0', step: 1, memoryBytes: 2, cpuCores: 3, gpuUtilization: null, gpuMemoryBytes: null };
  const others = ['x'.repeat(200_000), 'worker', 'worker:', 'worker:-1', `worker:${'1'.repeat(100)}`, 'Worker:0', 'worker:0\n', ''];
  const tasks = [task, 5, null, ...others.map((name) => ({ ...task, task: name }))];
  expect(parseSamples(JSON.stringify({ at: 5, tasks }))).toEqual([{ at: 5, tasks: [task] }]);
});
