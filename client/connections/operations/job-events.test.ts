import { describe, expect, test } from 'vitest';
import type { JobInfo } from '../../../conf/status/job-info.ts';
import { reportedJob, taskStatus } from '../../../conf/status/job-status.fixture.ts';
import { changes } from './job-events.ts';

const TASK = taskStatus();
const STATUS = reportedJob();

function types(before: JobInfo | null, after: JobInfo): string[] {
  return changes(before, after).map((event) => event.type);
}

describe('changes() yields', () => {
  test('the state and all tasks in the first observation', () => {
    expect(types(null, STATUS)).toEqual(['state', 'task']);
  });

  test('only differences in later observations', () => {
    expect(changes(STATUS, { ...STATUS, tasks: [{ ...TASK, silentMs: 900 }] })).toEqual([]);
    expect(types(STATUS, { ...STATUS, step: 7, metrics: { loss: 0.1 }, checkpointStep: 5 })).toEqual(['checkpoint', 'metrics']);
    expect(types(STATUS, { ...STATUS, tasks: [{ ...TASK, state: 'lost' }] })).toEqual(['task']);
  });

  test('nothing when only the duration in a waiting message grows', () => {
    const waits = (waitingMs: number, room: string): JobInfo => {
      return { ...STATUS, state: 'waiting', message: `worker:1 got no container (queue default has ${room} left).`, waitingMs };
    };
    const before = waits(59_000, '1024 MiB');
    expect(changes(before, waits(65_000, '1024 MiB'))).toEqual([]);
    expect(changes(before, waits(65_000, '512 MiB'))).toEqual([
      {
        type: 'state',
        state: 'waiting',
        message: 'Waiting for 1 min 5 s. worker:1 got no container (queue default has 512 MiB left).',
        generation: 1,
      },
    ]);
  });

  test('each notice once, even when a new notice replaces an older one', () => {
    const before = { ...STATUS, notices: ['a', 'storage is unreachable', 'c'] };
    expect(changes(before, { ...STATUS, notices: ['a', 'c', 'storage is reachable'] })).toEqual([
      { type: 'notice', message: 'storage is reachable' },
    ]);
  });

  test('each notice once, even when the bounded list drops older notices', () => {
    const before = { ...STATUS, notices: ['a', 'b', 'c'] };
    expect(changes(before, { ...STATUS, notices: ['b', 'c', 'd', 'e'] })).toEqual([
      { type: 'notice', message: 'd' },
      { type: 'notice', message: 'e' },
    ]);
  });
});
