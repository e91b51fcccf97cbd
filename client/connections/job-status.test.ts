import { expect, test } from 'vitest';
import { jobStatus, orphanedContainer } from '../../conf/job-status.fixture.ts';
import { checkedStatus } from './job-status.ts';

const status = jobStatus();
const withTask = (change: object) => ({ ...status, tasks: status.tasks.map((task, at) => (at === 0 ? { ...task, ...change } : task)) });

test('what an ApplicationMaster answers is taken when it is whole', () => {
  expect(checkedStatus(status, status.applicationId)).toEqual(status);
  expect(checkedStatus(status, 'application_1_9999')).toBeNull();
});

test.each([
  ['x$(touch it)', { role: 'x$(touch it)' }],
  ['an escape sequence', { role: '\x1b[2J' }],
  ['no number', { index: '0; ls' }],
  ['nothing', { role: undefined }],
])('a task named by %s is none: names come to terminals and into shells', (_, change) => {
  expect(checkedStatus(withTask(change), status.applicationId)).toBeNull();
});

test('an ApplicationMaster of an older version tells of no orphaned containers, and damaged ones are left out', () => {
  const { orphanedContainers: _, ...older } = status;
  expect(checkedStatus(older, status.applicationId)).toEqual(status);
  const told = [orphanedContainer(), 7, { ...orphanedContainer(), role: '\x1b[2J' }, { ...orphanedContainer(), mayRunForMs: '1' }];
  expect(checkedStatus({ ...status, orphanedContainers: told }, status.applicationId)?.orphanedContainers).toEqual([orphanedContainer()]);
});
