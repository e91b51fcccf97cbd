import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jobInfo, type ListedJob, listedJob } from '../../../conf/status/job-info.ts';
import { jobStatus, taskStatus } from '../../../conf/status/job-status.fixture.ts';
import { yarnApplication } from '../../../hadoop/yarn/application.fixture.ts';
import { listedApplication } from '../../listing/job-lister.ts';
import { terminalOf } from '../../terminal/terminal.ts';
import { widthOf } from '../../terminal/text-width.ts';
import { historyDetails, historyTable } from './history-lines.ts';
import { jobTable } from './job-table.ts';
import { jobListLines } from './list-lines.ts';

const plain = (columns: number) => terminalOf({ isTTY: true, columns }, { NO_COLOR: '1' });
const accepted = yarnApplication({
  id: 'application_1795225023264_0002',
  state: 'ACCEPTED',
  runningContainers: 0,
  used: {},
  diagnostics:
    '[Sat Nov 21 14:00:00 +0000 2026] Application is added to the scheduler and is not yet activated. Queue’s AM resource limit exceeded. Details : AM Partition = x',
});
const training = jobStatus({
  id: 'application_1795225023264_0001',
  createdAt: 1_000,
  step: 340,
  metrics: { loss: 0.5 },
  tasks: [taskStatus(), taskStatus({ index: 1, state: 'requested' })],
});
const jobs: ListedJob[] = [
  listedApplication(accepted, null),
  listedApplication(yarnApplication({ used: { 'memory-mb': 6144, 'yarn.io/gpu': 2 } }), training),
];

test('a list has one line per job with the reason for waiting below; 80 columns suffice for the most important fields', () => {
  expect(jobListLines(jobs, plain(80), { withUsers: false, now: 64_000 })).toEqual([
    'JOB                             NAME   QUEUE    STATE         TOOK  TASKS  STEP',
    'application_1795225023264_0002  mnist  default  waiting  1 min 3 s      -     -',
    '    Application is added to the scheduler and is not yet activated. Queue’s AM',
    '    resource limit exceeded.',
    'application_1795225023264_0001  mnist  default  running  1 min 3 s    1/2   340',
  ]);
  const wide = jobListLines(jobs, plain(200), { withUsers: true, now: 64_000 });
  expect(wide[0]).toBe('JOB                             USER   NAME   QUEUE    STATE         TOOK  TASKS  STEP  MEMORY  GPUS');
  expect(wide.at(-1)).toBe('application_1795225023264_0001  alice  mnist  default  running  1 min 3 s    1/2   340   6 GiB     2');
});

test("the state that the job reports takes precedence over YARN's", () => {
  const held = listedApplication(yarnApplication(), jobStatus({ state: 'waiting', message: 'waits for application_1' }));
  expect(held).toMatchObject({
    state: 'waiting',
    message: 'waits for application_1',
    tasksRunning: 1,
    tasksTotal: 1,
    yarn: { state: 'RUNNING' },
  });
  expect(listedApplication(yarnApplication({ state: 'FINISHED', finalStatus: 'SUCCEEDED' }), null)).toMatchObject({
    state: 'succeeded',
    tasksTotal: null,
  });
  expect(listedApplication(yarnApplication({ state: 'FINISHED', finalStatus: 'FAILED' }), null).state).toBe('failed');
  expect(listedApplication(yarnApplication({ state: 'NEW_SAVING' }), null).state).toBe('submitted');
});

test('a line below a job states that its ApplicationMaster does not answer', () => {
  const lines = jobListLines([listedApplication(yarnApplication(), null, { masterSilentMs: 3_000 })], plain(80), {
    withUsers: false,
    now: 64_000,
  });
  expect(lines.at(-1)).toBe('    The ApplicationMaster has not answered for 3 s.');
});

test("no line exceeds the terminal's width or contains control characters", () => {
  const text = fc.string({ unit: 'binary', maxLength: 100 });
  const any = fc.record({ name: text, queue: text, user: text, message: text });
  fc.assert(
    fc.property(fc.array(any, { maxLength: 5 }), fc.integer({ min: 21, max: 200 }), (texts, columns) => {
      const all = texts.map(({ message, ...change }) => listedApplication(yarnApplication(change), jobStatus({ message })));
      const lines = jobListLines(all, plain(columns), { withUsers: true, now: 0 });
      expect(lines.filter((line) => widthOf(line) >= columns || /\p{Cc}/u.test(line))).toEqual([]);
    }),
    { numRuns: 30 },
  );
});

test('list, history and status show the same duration of an ended job: from its submission to its end', () => {
  // The job waited 4 minutes for its ApplicationMaster and its quotas.
  const status = jobStatus({ state: 'succeeded', createdAt: 1_000, startedAt: 241_000, finishedAt: 301_400 });
  const { id, user } = status;
  const place = { jobId: id, user, folder: 'hdfs://nn/h' };
  const [, listed] = jobListLines([listedJob(jobInfo(status))], plain(100), { withUsers: false, now: 9e9 });
  const [, past] = historyTable([{ place, status }], plain(100), false);
  const [state, details] = [
    jobTable(jobInfo(status), plain(100), 9e9)[0],
    historyDetails({ folder: 'x', status, entries: [] }, plain(100))[2],
  ];
  expect(listed).toContain(' 5 min ');
  expect(past).toMatch(/ 5 min$/);
  expect(state).toMatch(/ {2}5 min$/);
  expect(details).toMatch(/, took 5 min$/);
});

test('a job without a duration yet has taken 0 s', () => {
  expect(
    jobListLines([listedApplication(yarnApplication({ startedAt: 64_000 }), null)], plain(80), { withUsers: false, now: 64_100 })[1],
  ).toContain(' 0 s ');
});
