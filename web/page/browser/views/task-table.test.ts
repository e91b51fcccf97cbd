import { expect, test } from 'vitest';
import { reportedJob, taskFailure, taskStatus } from '../../../../conf/status/job-status.fixture.ts';
import { restartsOf } from '../../../../conf/status/status.ts';
import { messageTitle } from './alerts.ts';
import { byRole, countsText, gpuOf, matches, nameOf, sorted, stateCounts } from './task-table.ts';

const usage = { memoryBytes: 100, cpuCores: 1, gpus: [], stopped: false };
const TASKS = [
  taskStatus({ index: 0, step: 30, node: 'node10:1', usage }),
  taskStatus({ index: 1, step: 10, node: 'node9:1', state: 'failed', failure: taskFailure() }),
  taskStatus({ index: 2, step: 20, node: null, state: 'requested' }),
];
const order = (key: Parameters<typeof sorted>[1]['key'], descending = false) =>
  sorted(TASKS, { key, descending }).map(({ index }) => index);

test('any column sorts the tasks, with missing values last', () => {
  expect(order('step')).toEqual([1, 2, 0]);
  expect(order('step', true)).toEqual([0, 2, 1]);
  expect(order('node')).toEqual([1, 0, 2]);
  expect(order('node', true)).toEqual([0, 1, 2]);
  expect(order('memory', true)).toEqual([0, 1, 2]);
  expect(order('state')).toEqual([1, 2, 0]);
});

test('the filter finds tasks by the text of their row', () => {
  const found = (filter: string) => TASKS.filter((task) => matches(task, filter)).map(nameOf);
  expect(found('')).toHaveLength(3);
  expect(found('FAILED')).toEqual(['worker:1']);
  expect(found('worker node10')).toEqual(['worker:0']);
  expect(found('code 3')).toEqual(['worker:1']);
  expect(found('evaluator')).toEqual([]);
});

test('roles keep the order of the job, and states that need attention come first', () => {
  expect(byRole([...TASKS, taskStatus({ role: 'ps' })]).map(({ role, tasks }) => [role, tasks.length])).toEqual([
    ['worker', 3],
    ['ps', 1],
  ]);
  expect(stateCounts(TASKS).map(({ state }) => state)).toEqual(['failed', 'requested', 'running']);
});

test('tasks that wait for other roles are counted as waiting, and the title of the message names the roles', () => {
  const waits = (role: string, awaited: string, index = 0) =>
    taskStatus({ role, index, state: 'requested', waitsFor: [{ role: awaited, state: 'succeeded' }] });
  const workers = [waits('worker', 'prepare'), waits('worker', 'prepare', 1)];
  expect(countsText(workers)).toBe('2 waiting for prepare');
  expect(countsText([...workers, ...TASKS])).toBe('1 failed, 2 waiting for prepare, 1 requested, 1 running');
  expect(workers.filter((task) => matches(task, 'waits for prepare'))).toHaveLength(2);
  expect(messageTitle(reportedJob({ tasks: workers }))).toBe('Role worker waits for prepare');
  expect(messageTitle(reportedJob({ tasks: [...workers, waits('report', 'worker')] }))).toBe(
    'Roles worker, report wait for prepare, worker',
  );
  expect(messageTitle(reportedJob({ tasks: TASKS }))).toBe('Some tasks are missing');
  expect(messageTitle(reportedJob({ state: 'recovering', tasks: workers }))).toBe('Recovering');
});

test('the first container does not count as a restart, and the GPU usage is the mean of all GPUs', () => {
  expect([0, 1, 3].map((programStarts) => restartsOf(taskStatus({ attempts: 4, programStarts })))).toEqual([0, 0, 2]);
  const gpus = [0.5, 1].map((utilization, index) => ({ index, utilization, memoryUsedBytes: 1, memoryTotalBytes: 2 }));
  expect(gpuOf(taskStatus({ usage: { ...usage, gpus } }))).toBe(0.75);
  expect(gpuOf(taskStatus({ usage }))).toBeNull();
});
