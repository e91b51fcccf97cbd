import { expect, test } from 'vitest';
import type { Task } from './job-state.ts';
import { runningContainer } from './running-container.ts';

const task = (index: number, state: Task['state']): Task =>
  ({ role: { name: 'worker' }, index, state, container: { id: `container_${index}` } }) as unknown as Task;

test('returns the container of a running task only', () => {
  const tasks = [task(0, 'running'), task(1, 'launching')];
  expect(runningContainer(tasks, 'worker', 0)).toEqual({ containerId: 'container_0' });
  expect(runningContainer(tasks, 'worker', 1)).toMatchObject({ missing: 'program', why: expect.stringContaining('launching') });
  expect(runningContainer(tasks, 'worker', 2)).toMatchObject({ missing: 'task', why: expect.stringContaining('worker:0, worker:1.') });
  expect(runningContainer(null, 'worker', 0)).toMatchObject({ missing: 'state' });
});

test('lists only some tasks of a large job', () => {
  const tasks = Array.from({ length: 1000 }, (_, index) => task(index, 'running'));
  expect(runningContainer(tasks, 'ps', 0)).toMatchObject({ why: expect.stringMatching(/worker:19, \.\.\.\.$/) });
});
