import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { jobStatus, orphanedContainer, taskFailure, taskStatus } from '../../conf/status/job-status.fixture.ts';
import type { HistoryEntry } from '../../conf/status/status.ts';
import type { TaskFailure } from '../../conf/status/task-failure.ts';
import { parseEntries } from '../../web/history-files.ts';
import { freezeJob } from '../job/freeze-job.ts';
import { fullTime } from '../terminal/clock.ts';
import { parseFinal } from './status-schema.ts';
import { endedStatus, type JobRecord, storedStatus } from './stored-status.ts';

const ID = 'application_1_0001';
const frozen = freezeJob(
  parseJob('name: mnist\ncommand: node train.ts\nroles: {worker: {instances: 2}}\n', { file: 'job.yaml', folder: '/x' }),
  {
    jobId: ID,
    user: 'alice',
    submittedAt: 1000,
    root: 'hdfs://nn/r',
    home: 'hdfs://nn/user/alice',
    data: {},
    files: {},
    resources: [],
    tensorboard: null,
    cluster: { kind: 'yarn', hadoop: {} },
  },
);
const entries: HistoryEntry[] = [
  { at: 2000, type: 'master-registered', message: 'attempt 1, queue default, 0 containers from the previous attempt' },
  { at: 2100, type: 'container-allocated', role: 'worker', index: 0, containerId: 'container_1_0001_01_000002', node: 'n1:1' },
  { at: 2200, type: 'executor-registered', role: 'worker', index: 0 },
  { at: 2300, type: 'program-started', role: 'worker', index: 0, generation: 1 },
  {
    at: 2400,
    type: 'task-failed',
    role: 'worker',
    index: 1,
    generation: 1,
    failure: taskFailure({ lines: ['boom', 'bang'] }),
  },
];

function record(change: Partial<JobRecord> = {}): JobRecord {
  return { jobId: ID, user: 'alice', frozen, final: null, entries, bytes: 0, ...change };
}

test('final.json determines the status, except for the user', () => {
  const final = jobStatus({
    state: 'succeeded',
    finishedAt: 5,
    step: 7,
    user: 'mallory',
    tasks: [taskStatus({ state: 'succeeded', silentMs: 3 })],
  });
  const status = storedStatus(record({ final: parseFinal(JSON.stringify(final), ID) }), 'forgotten');
  expect(status).toEqual({ ...final, user: 'alice', tasks: [taskStatus({ state: 'succeeded', silentMs: null })] });
});

test('parseFinal completes a final.json of an older version, drops damaged parts, and rejects one of another job', () => {
  const { failure, tensorboard, master, orphanedContainers, ...older } = jobStatus({ state: 'failed', finishedAt: 5 });
  expect(parseFinal(JSON.stringify(older), ID)).toMatchObject({
    failure: null,
    master: null,
    tensorboard: { state: 'off' },
    orphanedContainers: [],
  });
  expect(parseFinal(JSON.stringify(older), 'application_1_0002')).toBe('damaged');
  expect(parseFinal(JSON.stringify({ ...older, tasks: [1, { role: 'worker' }, taskStatus()] }), ID)).toMatchObject({
    tasks: [taskStatus()],
  });
  const orphans = [{ role: '../x', index: 0 }, { ...orphanedContainer(), attached: 'yes' }, null];
  expect(parseFinal(JSON.stringify({ ...older, orphanedContainers: orphans }), ID)).toMatchObject({
    orphanedContainers: [orphanedContainer()],
  });
});

test('without final.json, the result comes from YARN and everything else from the events', () => {
  const word = {
    name: 'x',
    queue: 'q',
    startedAt: 1,
    finishedAt: 9000,
    result: { state: 'killed', message: 'Killed by bob.' },
  } as const;
  expect(storedStatus(record(), word)).toMatchObject({
    name: 'mnist',
    queue: 'default',
    state: 'killed',
    message: 'Killed by bob.',
    startedAt: 1000,
    finishedAt: 9000,
    generations: 1,
    failure: { role: 'worker', index: 1, ...taskFailure({ lines: ['boom', 'bang'] }) },
    summaryUri: `hdfs://nn/r/history/${ID}/summaries`,
    tasks: [
      { role: 'worker', index: 0, state: 'stopped', containerId: 'container_1_0001_01_000002', node: 'n1:1', attempts: 1 },
      { role: 'worker', index: 1, state: 'failed', failures: 1 },
    ],
  });
});

test('a running job without final.json is running, or starting if it has no events', () => {
  const word = { name: 'x', queue: 'q', startedAt: 1, finishedAt: null, result: null };
  expect(storedStatus(record(), word)).toMatchObject({
    state: 'running',
    finishedAt: null,
    tasks: [{ state: 'running' }, { state: 'failed' }],
  });
  expect(storedStatus(record({ entries: [] }), word)).toMatchObject({ state: 'starting', tasks: [{ state: 'requested' }, {}] });
});

test('if YARN has no record of the job, the result comes from the last events', () => {
  const finished = [...entries, { at: 3000, type: 'job-finished', state: 'failed', message: 'worker:1: no\nmore' }] as const;
  expect(storedStatus(record({ entries: finished }), 'forgotten')).toMatchObject({
    state: 'failed',
    message: 'worker:1: no\nmore',
    finishedAt: 3000,
  });
  expect(storedStatus(record(), 'forgotten')).toMatchObject({
    state: 'failed',
    finishedAt: 2400,
    message: `The job stopped before it recorded its result, and YARN has no record of the result. Its last event was task-failed at ${fullTime(2400)}.`,
  });
  expect(storedStatus(record({ final: parseFinal('{"jobId"', ID), frozen: null, entries: [] }), 'forgotten')).toMatchObject({
    state: 'failed',
    message: "The job's final record is damaged. There are no events.",
    tasks: [],
  });
});

test('a corrected failure replaces the first report, and no longer counts if the cluster caused it', () => {
  const corrected = (failure: TaskFailure): HistoryEntry => ({ ...task, at: 2500, type: 'failure-corrected', failure });
  const task = { role: 'worker', index: 1, generation: 1 };
  const lost = taskFailure({ cost: 'free', lines: [] });
  const failures = (entry: HistoryEntry) => storedStatus(record({ entries: [...entries, entry] }), 'forgotten').tasks[1];
  expect(failures(corrected(lost))).toMatchObject({ failures: 0, failure: lost });
  const preempted = taskFailure({
    cause: { kind: 'container', end: 'preempted', exitStatus: -102, memoryBytes: 1 << 20, message: '' },
    cost: 'free',
  });
  expect(failures(corrected(preempted))).toMatchObject({ state: 'lost', failures: 0, failure: preempted });
  expect(failures({ ...corrected(preempted), containerId: 'an earlier one' })).toMatchObject({ state: 'failed', failures: 0 });
  expect(failures(corrected(taskFailure()))).toMatchObject({ failures: 1, failure: taskFailure() });
});

test('without an answer from the cluster, a job without final.json counts as RUNNING', () => {
  expect(storedStatus(record(), 'silent')).toMatchObject({
    state: 'running',
    finishedAt: null,
    message: expect.stringContaining('does not answer'),
  });
  expect(storedStatus(record({ final: 'damaged' }), 'silent')).toMatchObject({ state: 'failed' });
});

test('the last status of a job that YARN has killed ends with the job, but keeps its progress', () => {
  const last = jobStatus({
    step: 40,
    checkpointStep: 30,
    message: 'Waiting',
    tasks: [taskStatus(), taskStatus({ index: 1, state: 'failed' })],
  });
  expect(endedStatus(last, { state: 'killed', message: 'Killed by alice.' }, 9_000)).toMatchObject({
    state: 'killed',
    message: 'Killed by alice.',
    step: 40,
    checkpointStep: 30,
    finishedAt: 9_000,
    tasks: [{ state: 'stopped' }, { state: 'failed' }],
  });
});

test('storedStatus returns a valid status for any content of the files', () => {
  const line = fc.oneof(
    fc.json(),
    fc.string(),
    fc
      .record({
        at: fc.anything(),
        type: fc.constantFrom('task-failed', 'container-allocated', 'job-finished', 'x'),
        role: fc.anything(),
        index: fc.anything(),
        detail: fc.anything(),
        failure: fc.anything(),
        result: fc.anything(),
        generation: fc.anything(),
      })
      .map((value) => JSON.stringify(value)),
  );
  const finals = fc.oneof(
    fc.string(),
    fc.json(),
    fc
      .record({ jobId: fc.constant(ID), state: fc.constantFrom('failed', 'x'), tasks: fc.anything(), metrics: fc.anything() })
      .map((value) => JSON.stringify(value)),
  );
  fc.assert(
    fc.property(fc.array(line), finals, fc.boolean(), (lines, final, whole) => {
      const status = storedStatus(
        record({ final: parseFinal(final, ID), entries: parseEntries(lines.join('\n')), frozen: whole ? frozen : null }),
        'forgotten',
      );
      expect(['succeeded', 'failed', 'killed']).toContain(status.state);
      expect(Number.isFinite(status.startedAt)).toBe(true);
      JSON.stringify(status);
    }),
  );
});

test('a program that several attempts of the ApplicationMaster record has started once, and one that could not be executed as well', () => {
  const first = { role: 'worker', index: 0, containerId: 'c1', generation: 1 };
  const other = { role: 'worker', index: 1, containerId: 'c2', generation: 1 };
  const programs: HistoryEntry[] = [
    { at: 1, type: 'program-started', ...first },
    { at: 2, type: 'program-started', ...first },
    { at: 3, type: 'program-ended', ...first, exit: { code: 3, signal: null } },
    { at: 4, type: 'program-ended', ...other, exit: { code: 125, signal: null } },
    { at: 5, type: 'program-started', ...first, generation: 2 },
    { at: 6, type: 'program-started', ...other, containerId: 'c3' },
  ];
  const { tasks } = storedStatus(record({ entries: programs }), 'silent');
  expect(tasks.map(({ programStarts }) => programStarts)).toEqual([2, 2]);
});
