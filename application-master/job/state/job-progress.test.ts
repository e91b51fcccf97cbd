import { expect, test } from 'vitest';
import { role, workers } from '../../../conf/job.fixture.ts';
import { progressOf } from './job-progress.ts';
import type { MachineState } from './job-state.ts';

interface Example {
  readonly rank?: number;
  readonly step?: number;
  readonly total?: number;
  readonly state?: 'running' | 'succeeded';
  readonly kind?: 'independent' | 'sidecar';
}

function progress(...tasks: Example[]): number | null {
  const state = {
    tasks: tasks.map(({ rank = null, step = 0, total = 0, state: of = 'running', kind = 'independent' }) => ({
      role: rank === null ? role({ name: 'other', kind }) : workers(),
      index: 0,
      rank,
      state: of,
      progress: { step, reportedStep: step, total, metrics: {} },
    })),
  };
  return progressOf(state as unknown as MachineState);
}

test('the progress of a job is the share of steps that rank 0 has completed', () => {
  expect(progress({ rank: 0, step: 30, total: 120 }, { rank: 1, step: 60, total: 120 }, { state: 'succeeded' })).toBe(0.25);
  expect(progress({ rank: 0, step: 130, total: 120 })).toBe(1);
});

test('without ranks, the progress of a job is the highest share of steps of a tracked task', () => {
  expect(progress({ step: 1, total: 10 }, { step: 4, total: 10 }, { step: 9, total: 10, kind: 'sidecar' })).toBe(0.4);
});

test('without an expected number of steps, the progress of a job is the share of tracked tasks that have succeeded, or unknown', () => {
  expect(progress({ rank: 0, step: 30 }, { state: 'succeeded' }, { kind: 'sidecar', state: 'succeeded' })).toBe(0.5);
  expect(progress({ rank: 0 })).toBeNull();
  expect(progress()).toBeNull();
});
