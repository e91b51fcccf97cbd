import { expect, test } from 'vitest';
import { describeProgress } from './feed-progress.ts';

test.each(['waiting', 'connected'] as const)(
  'describeProgress removes control characters from the reason that a job reports: %s',
  (state) => {
    const reason = 'the task\x1b]0;title\x07 is \x9b2Jbusy\u202e';
    expect(describeProgress({ state, reason, written: 2, taken: 1, receivedBefore: 0, readers: 0 })).toBe(
      'waiting: the task is 2Jbusy (2 records written, 1 received)',
    );
  },
);

test('the progress counts the records of earlier processes separately', () => {
  expect(describeProgress({ state: 'over', reason: '', written: 2, taken: 2, receivedBefore: 600, readers: 1 })).toBe(
    'done: 2 records written, 2 received, 600 received before this process',
  );
});
