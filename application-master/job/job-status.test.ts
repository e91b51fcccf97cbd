import { describe, expect, test } from 'vitest';
import { frozen, role, workers } from '../../conf/job.fixture.ts';
import { taskFailure } from '../../conf/status/job-status.fixture.ts';
import { statusOf } from './job-status.ts';
import { JobScenario } from './simulator/job-scenario.ts';
import type { MachineState } from './state/job-state.ts';
import { type TaskChanges, Transition } from './state/transition.ts';

const sidecar = role({ name: 'tensorboard', kind: 'sidecar', spare: true });
const serving = { logdir: null, serve: true, resources: { memoryMb: 1024, vcores: 1 } };
const scene = JobScenario.running(frozen({ roles: [workers()] }));

function tensorBoard(change: TaskChanges, notices: MachineState['training']['notices'] = []): unknown {
  const running = JobScenario.running(frozen({ roles: [workers(), sidecar], tensorboard: serving })).state;
  const transition = new Transition({ ...running, training: { ...running.training, notices } }, running.now);
  const slot = running.tasks.findIndex((task) => task.role.name === 'tensorboard');
  transition.update(slot, change);
  const { state } = transition;
  return statusOf(state, state.now).tensorboard;
}

test.each([
  [
    'requested',
    { state: 'requested', wait: { asked: true }, failures: { newest: null } },
    { state: 'waiting', message: 'TensorBoard waits for a container.' },
  ],
  ['not requested yet', { state: 'requested', wait: { asked: false }, failures: { newest: null } }, { state: 'waiting', message: '' }],
  [
    'restarting',
    { state: 'requested', failures: { newest: taskFailure({ lines: ['x'] }) } },
    { state: 'waiting', message: 'TensorBoard is restarting: its program exited with code 3' },
  ],
  ['launching', { state: 'launching' }, { state: 'starting', message: '' }],
  ['running, but not answering yet', { state: 'running', progress: { metrics: {} } }, { state: 'starting', message: '' }],
  ['answering', { state: 'running', progress: { metrics: { ready: 1 } } }, { state: 'ready', message: '' }],
  ['down', { state: 'running', progress: { metrics: { ready: 0 } } }, { state: 'starting', message: '' }],
  [
    'permanently lost',
    { state: 'lost', failures: { newest: taskFailure({ cause: { kind: 'impossible', message: 'no node is large enough' } }) } },
    { state: 'unavailable', message: 'no node is large enough' },
  ],
] as const)('the status shows a TensorBoard that is %s', (_what, change, expected) => {
  expect(tensorBoard(change)).toEqual(expected);
});

test('the status shows why TensorBoard is unavailable, as its program reported', () => {
  const notices = [
    { task: 'worker:0', text: 'something', about: '' },
    { task: 'tensorboard:0', text: 'No Python 3.9 or newer on node1.', about: '' },
  ];
  const expected = { state: 'unavailable', message: 'No Python 3.9 or newer on node1.' };
  expect(tensorBoard({ state: 'succeeded', exit: { code: 0, signal: null } }, notices)).toEqual(expected);
});

test('TensorBoard is off when the job requests none', () => {
  expect(scene.status().tensorboard).toEqual({ state: 'off', message: '' });
});

test('the status contains the first failure as data, and ignores failures of sidecars', () => {
  const job = JobScenario.running(frozen({ roles: [workers(), role({ name: 'logger', kind: 'sidecar' })] }));
  const [first, second, third] = job.state.tasks.map(({ container }) => container?.id ?? '');
  job.exit(third ?? '', 4, { stderr: 'sidecar' });
  expect(job.status().failure).toBeNull();
  job.exit(second ?? '', 3, { stderr: 'Traceback:\n  boom' });
  expect(job.status().failure).toEqual({
    role: 'worker',
    index: 1,
    cause: { kind: 'program', exit: { code: 3, signal: null } },
    cost: 'charged',
    node: 'h2:1',
    lines: ['Traceback:', '  boom'],
  });
  job.exit(first ?? '', 5, { stderr: 'later' });
  expect(job.status().failure).toMatchObject({ role: 'worker', index: 1 });
});

describe('a job that recovers', () => {
  test.each([
    ['with a gang', workers()],
    ['without a gang', role({ name: 'worker', instances: 2 })],
  ])('names the task that failed last, in each of three failures in a row (%s)', (_, workerRole) => {
    const job = JobScenario.running(frozen({ roles: [workerRole] }));
    for (const name of ['worker:1', 'worker:0', 'worker:1']) {
      job.wait(60_000);
      job.exit(job.container(name), 7);
      expect(job.status()).toMatchObject({
        state: 'recovering',
        message: expect.stringMatching(new RegExp(`^${name}: its program on h[12]:1 exited with code 7`)),
        failedTask: { role: 'worker', index: Number(name.at(-1)) },
      });
      job.serve();
      expect(job.status()).toMatchObject({ state: 'running', failedTask: null });
    }
  });

  test('shows the step from which its programs resume', () => {
    const job = JobScenario.running(frozen({ roles: [workers()] }));
    const container = job.container('worker:0');
    const progress = {
      step: 4068,
      total: 10_000,
      metrics: {},
      checkpointStep: 3850,
      notices: [],
      ending: false,
      earlyEnd: null,
      lostRank: null,
    };
    job.say({ type: 'heartbeat', containerId: container, generation: 1, clock: job.clock(container), usage: null, progress } as never);
    expect(job.status()).toMatchObject({ step: 4068, checkpointStep: 3850 });
    job.exit(job.container('worker:1'), 7);
    expect(job.status()).toMatchObject({ state: 'recovering', step: 3850, checkpointStep: 3850 });
    expect(job.task('worker:0').step).toBe(3850);
  });

  test('a failed job keeps the step of its metrics, although the programs of later generations have reported none', () => {
    const job = JobScenario.running(frozen({ roles: [workers()] }));
    const report = (step: number, metrics: Readonly<Record<string, number>>) => {
      const container = job.container('worker:0');
      const progress = { step, total: 0, metrics, checkpointStep: 0, notices: [], ending: false, earlyEnd: null, lostRank: null };
      const { generation } = job.state;
      job.say({ type: 'heartbeat', containerId: container, generation, clock: job.clock(container), usage: null, progress } as never);
    };
    report(41, { loss: 0.5 });
    for (let failures = 0; job.status().state !== 'failed'; failures++) {
      expect(failures).toBeLessThan(10);
      job.wait(60_000);
      job.exit(job.container('worker:1'), 7);
      job.serve();
      if (job.status().state === 'running') {
        report(0, {});
        expect(job.status()).toMatchObject({ step: 0, metrics: { loss: 0.5 } });
      }
    }
    expect(job.status()).toMatchObject({ state: 'failed', step: 41, metrics: { loss: 0.5 } });
    expect(job.task('worker:0')).toMatchObject({ step: 41, metrics: { loss: 0.5 } });
  });
});

test('the status names the time of the submission, but no time after the start of the ApplicationMaster', () => {
  const at = (submittedAt: number) => statusOf({ ...scene.state, frozen: { ...scene.state.frozen, submittedAt } }, scene.now);
  const { startedAt } = scene.state;
  expect(at(startedAt - 240_000)).toMatchObject({ createdAt: startedAt - 240_000, startedAt });
  expect(at(startedAt + 9_000)).toMatchObject({ createdAt: startedAt, startedAt });
});
