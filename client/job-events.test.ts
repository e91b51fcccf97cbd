import { describe, expect, test } from 'vitest';
import type { JobStatus, TaskStatus } from '../conf/status.ts';
import { changes } from './job-events.ts';

const TASK: TaskStatus = {
  role: 'worker',
  index: 0,
  state: 'running',
  generation: 1,
  attempts: 1,
  failures: 0,
  containerId: 'container_1_0001_01_000002',
  node: 'node1:8041',
  nodeHttp: 'node1:8042',
  step: 0,
  metrics: {},
  usage: null,
  silentMs: 10,
  exitCode: null,
  failure: null,
};

const STATUS: JobStatus = {
  applicationId: 'application_1_0001',
  name: 'mnist',
  user: 'alice',
  state: 'RUNNING',
  message: '',
  masterAttempt: 1,
  generations: 1,
  startedAt: 0,
  finishedAt: null,
  step: 0,
  metrics: {},
  checkpointStep: 0,
  checkpointDir: 'hdfs://nn/c',
  summaryDir: 'hdfs://nn/s',
  notices: [],
  failure: null,
  tensorboard: { state: 'off', message: '' },
  master: null,
  queue: 'default',
  tasks: [TASK],
};

function types(before: JobStatus | null, after: JobStatus): string[] {
  return changes(before, after).map((event) => event.type);
}

describe('what a follower is told', () => {
  test('at first: state and tasks', () => {
    expect(types(null, STATUS)).toEqual(['state', 'task']);
  });

  test('then only what has changed', () => {
    expect(changes(STATUS, { ...STATUS, tasks: [{ ...TASK, silentMs: 900 }] })).toEqual([]);
    expect(types(STATUS, { ...STATUS, step: 7, metrics: { loss: 0.1 }, checkpointStep: 5 })).toEqual(['checkpoint', 'metrics']);
    expect(types(STATUS, { ...STATUS, tasks: [{ ...TASK, state: 'lost' }] })).toEqual(['task']);
  });

  test('not that the same wait has grown longer', () => {
    const waits = (message: string): JobStatus => ({ ...STATUS, state: 'WAITING', message });
    const before = waits('1 of 2 workers are missing for 59 s: the queue has room for 1024 MiB.');
    expect(changes(before, waits('1 of 2 workers are missing for 1 min 5 s: the queue has room for 1024 MiB.'))).toEqual([]);
    expect(types(before, waits('1 of 2 workers are missing for 60 s: the queue has room for 512 MiB.'))).toEqual(['state']);
  });

  test('each notice once, also when the bounded list has dropped older ones', () => {
    const before = { ...STATUS, notices: ['a', 'b', 'c'] };
    expect(changes(before, { ...STATUS, notices: ['b', 'c', 'd', 'e'] })).toEqual([
      { type: 'notice', message: 'd' },
      { type: 'notice', message: 'e' },
    ]);
  });
});
