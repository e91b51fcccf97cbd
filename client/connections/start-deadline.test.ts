import { expect, test } from 'vitest';
import { StartDeadline } from './start-deadline.ts';

test('a job that has not started in time is killed once', () => {
  const deadline = new StartDeadline(0);
  expect(['SUBMITTED', 'ACCEPTED', 'ACCEPTED'].map((state) => deadline.isMissed(state))).toEqual([true, false, false]);
  expect(deadline.reason).toBe('The ApplicationMaster did not start within 0 ms (master.startTimeout).');
});

test('a started job is not killed, even when it waits for its second ApplicationMaster', () => {
  const deadline = new StartDeadline(0);
  expect(['RUNNING', 'ACCEPTED'].map((state) => deadline.isMissed(state))).toEqual([false, false]);
});

test('a job that is still within its time limit is not killed', () => {
  expect(new StartDeadline(60_000).isMissed('ACCEPTED')).toBe(false);
});
