import { expect, test } from 'vitest';
import { frozen, role } from '../../conf/job.fixture.ts';
import type { RoleCondition } from '../../conf/job.ts';
import { MOST_ROLES } from '../../conf/job-values.ts';
import type { HistoryEntry } from '../../conf/status/status.ts';
import { MAXIMUM_TASKS, tasksOf } from './recorded-tasks.ts';

const wait = (event: string, name: string): HistoryEntry => ({ at: 1, type: event, role: name, message: '' }) as HistoryEntry;

test('a task waits for other roles from `role-waits` until `role-released`', () => {
  const job = frozen({ roles: [role({ name: 'load' }), role({ name: 'train', after: [{ role: 'load', state: 'succeeded' }] })] });
  const waits = (...entries: HistoryEntry[]) => tasksOf(job, entries, false).map(({ waitsFor }) => waitsFor);
  expect(waits(wait('role-waits', 'train'))).toEqual([undefined, [{ role: 'load', state: 'succeeded' }]]);
  expect(waits(wait('role-waits', 'train'), wait('role-released', 'train'))).toEqual([undefined, undefined]);
  expect(waits(wait('role-waits', 'unknown'))).toEqual([undefined, undefined]);
});

/** One pass over all tasks for each event would exceed the time limit of the test by far. */
test('a history with as many tasks, events and conditions as its limits allow takes time linear in them, and bounded memory', () => {
  const names = Array.from({ length: MOST_ROLES - 1 }, (_, index) => `r${index}`);
  const after = names.map((name): RoleCondition => ({ role: name, state: 'running' }));
  const job = frozen({ roles: [role({ name: 'all', instances: MAXIMUM_TASKS, after }), ...names.map((name) => role({ name }))] });
  const events = Array.from({ length: 150_000 }, (_, index) => wait(index % 2 === 0 ? 'role-released' : 'role-waits', 'all'));
  const tasks = tasksOf(job, events, true);
  expect(tasks).toHaveLength(MAXIMUM_TASKS);
  expect(tasks.every(({ state, waitsFor }) => state === 'stopped' && waitsFor?.length === 10)).toBe(true);
});
