import { expect, test } from 'vitest';
import { jobStatus, orphanedContainer } from '../../conf/status/job-status.fixture.ts';
import { checkedStatus } from './job-status.ts';

const status = jobStatus();
const withTask = (change: object) => ({ ...status, tasks: status.tasks.map((task, at) => (at === 0 ? { ...task, ...change } : task)) });

test('checkedStatus accepts only a complete status of the requested application', () => {
  expect(checkedStatus(status, status.applicationId)).toEqual(status);
  expect(checkedStatus(status, 'application_1_9999')).toBeNull();
});

test.each([
  ['x$(touch it)', { role: 'x$(touch it)' }],
  ['an escape sequence', { role: '\x1b[2J' }],
  ['text instead of a number', { index: '0; ls' }],
  ['no role', { role: undefined }],
])('checkedStatus rejects a task named by %s, because names reach terminals and shells', (_, change) => {
  expect(checkedStatus(withTask(change), status.applicationId)).toBeNull();
});

test('checkedStatus accepts a status without orphaned containers, and drops damaged ones', () => {
  const { orphanedContainers: _, ...older } = status;
  expect(checkedStatus(older, status.applicationId)).toEqual(status);
  const reported = [orphanedContainer(), 7, { ...orphanedContainer(), role: '\x1b[2J' }, { ...orphanedContainer(), mayRunForMs: '1' }];
  expect(checkedStatus({ ...status, orphanedContainers: reported }, status.applicationId)?.orphanedContainers).toEqual([
    orphanedContainer(),
  ]);
});
