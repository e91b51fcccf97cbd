import { expect, test } from 'vitest';
import { describeProgress } from './feed-progress.ts';

test.each(['waiting', 'connected'] as const)(
  'describeProgress removes control characters from the reason that a job reports: %s',
  (state) => {
    const reason = 'the task\x1b]0;title\x07 is \x9b2Jbusy\u202e';
    expect(describeProgress({ state, reason, written: 2, taken: 1, readers: 0 })).toBe(
      'waiting: the task is 2Jbusy (2 records written, 1 received)',
    );
  },
);
