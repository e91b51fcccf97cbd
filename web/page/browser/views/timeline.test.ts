import { describe, expect, test } from 'vitest';
import { reportedJob, taskFailure, taskStatus } from '../../../../conf/status/job-status.fixture.ts';
import type { HistoryEntry, JobStatus } from '../../../../conf/status/status.ts';
import { isSpan, type TaskTimeline, timelineOf } from './timeline.ts';

const WORKER = { role: 'worker', index: 0 };
const FIRST = { ...WORKER, containerId: 'container_1', node: 'node1:8041', attempt: 1 };
const SECOND = { ...WORKER, containerId: 'container_2', node: 'node2:8041', attempt: 2 };

const START: readonly HistoryEntry[] = [
  { at: 100, type: 'master-registered' },
  { at: 110, type: 'task-requested', ...WORKER },
  { at: 200, type: 'container-allocated', ...FIRST },
  { at: 300, type: 'executor-registered', message: '10.0.0.1:4000', program: 'idle', ...FIRST },
  { at: 400, type: 'generation-started', generation: 1 },
  { at: 410, type: 'program-started', generation: 1, ...FIRST },
];

function worker(entries: readonly HistoryEntry[], status: Partial<JobStatus> = {}, now = 1_000): TaskTimeline {
  const [first] = timelineOf(entries, reportedJob({ startedAt: 50, ...status }), now).tasks;
  if (first === undefined) {
    throw new Error('there is no task');
  }
  return first;
}

function phases({ spans }: TaskTimeline): unknown[] {
  return spans.map(({ phase, from, to, open }) => [phase, from, to, ...(open ? ['open'] : [])]);
}

test('the timeline shows the reason for a new generation', () => {
  const again = {
    at: 500,
    type: 'generation-started',
    generation: 2,
    message: '2 ranked tasks (2 of 2..4 workers)',
    reason: 'worker:2 was lost',
  };
  const { moments } = timelineOf([...START, again], reportedJob({ startedAt: 50 }), 1_000);
  expect(moments.map(({ text }) => text)).toEqual([
    'ApplicationMaster registered',
    'generation 1 started',
    'generation 2 started: worker:2 was lost',
  ]);
});

test('the timeline names a lost node', () => {
  const lost = { at: 600, type: 'node-lost', node: 'node1:8041', message: 'it ran 1 task of the job' };
  const { moments } = timelineOf([...START, lost], reportedJob({ startedAt: 50 }), 1_000);
  expect(moments.at(-1)).toEqual({ at: 600, text: 'node node1:8041 lost' });
});

describe('the timeline of a task', () => {
  test('a running task has all phases up to running, which is still open', () => {
    const task = worker(START);
    expect(phases(task)).toEqual([
      ['requested', 110, 200],
      ['launching', 200, 300],
      ['registered', 300, 410],
      ['running', 410, 1_000, 'open'],
    ]);
    expect(task.spans.at(-1)).toMatchObject({ generation: 1, attempt: 1, node: 'node1:8041', containerId: 'container_1' });
    expect(task.ends).toEqual([]);
  });

  test('a program that exits with code 0 ends its task with success', () => {
    const status = { tasks: [taskStatus({ state: 'succeeded' })], state: 'succeeded', finishedAt: 900 } as const;
    const task = worker(
      [
        ...START,
        { at: 800, type: 'program-ended', exit: { code: 0, signal: null }, generation: 1, ...FIRST },
        { at: 900, type: 'job-finished', state: 'succeeded' },
      ],
      status,
    );
    expect(phases(task).at(-1)).toEqual(['running', 410, 800]);
    expect(task.ends).toEqual([{ at: 800, outcome: 'succeeded', text: 'exited with code 0' }]);
  });

  test('a phase comes before its end, even within one millisecond', () => {
    const { steps } = worker([
      ...START.slice(0, 5),
      { at: 400, type: 'program-started', generation: 1, ...FIRST },
      { at: 400, type: 'task-failed', failure: taskFailure(), generation: 1, ...FIRST },
      { at: 400, type: 'task-requested', ...WORKER },
      { at: 400, type: 'container-allocated', ...SECOND },
    ]);
    expect(steps.slice(2).map((step) => (isSpan(step) ? step.phase : step.outcome))).toEqual([
      'registered',
      'running',
      'failed',
      'requested',
      'launching',
    ]);
  });

  test('the request for a new container follows a failure', () => {
    const task = worker([
      ...START,
      { at: 500, type: 'program-ended', exit: { code: 3, signal: null }, generation: 1, ...FIRST },
      { at: 500, type: 'task-failed', failure: taskFailure(), generation: 1, ...FIRST },
      { at: 600, type: 'task-requested', ...WORKER },
      { at: 650, type: 'task-requested', ...WORKER },
      { at: 700, type: 'container-allocated', ...SECOND },
      { at: 710, type: 'container-ended', message: 'the container exited with 3', ...FIRST },
    ]);
    expect(phases(task).slice(3)).toEqual([
      ['running', 410, 500],
      ['requested', 600, 700],
      ['launching', 700, 1_000, 'open'],
    ]);
    expect(task.spans.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1, 2, 2]);
    expect(task.ends.map(({ outcome }) => outcome)).toEqual(['failed']);
  });

  test('a task waits in its container while a new generation is formed', () => {
    const task = worker([
      ...START,
      { at: 600, type: 'program-stopped', generation: 1, ...FIRST },
      { at: 700, type: 'program-started', generation: 2, ...FIRST },
    ]);
    expect(phases(task).slice(3)).toEqual([
      ['running', 410, 600],
      ['registered', 600, 700],
      ['running', 700, 1_000, 'open'],
    ]);
    expect(task.spans.filter(({ phase }) => phase === 'running').map(({ generation }) => generation)).toEqual([1, 2]);
  });

  test('a restart of the ApplicationMaster does not change the phases', () => {
    const entries = [
      ...START,
      { at: 700, type: 'master-registered' },
      { at: 710, type: 'executor-registered', message: '10.0.0.1:4000', program: 'running', ...FIRST },
    ] as const;
    expect(phases(worker(entries)).slice(3)).toEqual([['running', 410, 1_000, 'open']]);
    const { moments } = timelineOf(entries, reportedJob({ startedAt: 50 }), 1_000);
    expect(moments.map(({ text }) => text)).toEqual([
      'ApplicationMaster registered',
      'generation 1 started',
      'ApplicationMaster restarted',
    ]);
  });

  test('the end of the job stops running tasks; a task that never got a container has no end', () => {
    const finished = [...START, { at: 900, type: 'job-finished', state: 'failed' }] as const;
    const status = { state: 'failed', finishedAt: 900, tasks: [taskStatus({ state: 'stopped' })] } as const;
    expect(worker(finished, status).ends).toEqual([{ at: 900, outcome: 'stopped', text: 'the job had ended' }]);
    const wanted = worker([...START.slice(0, 2), { at: 900, type: 'job-finished', state: 'failed' }], status);
    expect(phases(wanted)).toEqual([['requested', 110, 900]]);
    expect(wanted.ends).toEqual([]);
  });
});

test('a job without events still has tasks and a positive duration', () => {
  const { from, to, tasks } = timelineOf([], reportedJob({ startedAt: 500 }), 400);
  expect(to).toBeGreaterThan(from);
  expect(tasks).toEqual([{ task: 'worker:0', steps: [], spans: [], ends: [] }]);
});
