import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type JobInfo, type ListedJob, listedJob, unreportedJob, yarnReport } from '../../conf/status/job-info.ts';
import { orphanedContainer, reportedJob, taskStatus } from '../../conf/status/job-status.fixture.ts';
import type { JobStatus, TaskStatus } from '../../conf/status/status.ts';
import { yarnApplication } from '../../hadoop/yarn/application.fixture.ts';
import { terminalOf } from '../terminal/terminal.ts';
import { widthOf } from '../terminal/text-width.ts';
import { JOB_ORDERINGS, jobFrame, jobsFrame, TASK_ORDERINGS } from './top.ts';
import { FIRST_VIEW, type TopView } from './top-view.ts';

const ID = 'application_1795225023264_0001';
const NOTES = { notice: '', intervalMs: 2000 };
const plain = (columns: number, rows = 10) => terminalOf({ isTTY: true, columns, rows }, { NO_COLOR: '1' });
const seen = (change: Partial<JobStatus>): JobInfo => reportedJob({ id: ID, createdAt: 1, ...change });
const busy = (index: number, cpuCores: number, change: Partial<TaskStatus> = {}): TaskStatus =>
  taskStatus({ index, usage: { memoryBytes: 2 ** 30, cpuCores, gpus: [], stopped: false }, ...change });
const order = (name: string): TopView => ({ ...FIRST_VIEW, order: TASK_ORDERINGS.findIndex((each) => each.name === name) });

test('the frame of a job shows its summary, its tasks, and the keys in the last line', () => {
  const { lines } = jobFrame(seen({ step: 340, tasks: [busy(0, 1), busy(1, 2.5)] }), FIRST_VIEW, NOTES, plain(80, 8), 63_000);
  expect(lines).toEqual([
    ID,
    'mnist  running  step 340  1 min 3 s',
    'TASK      STATE    NODE   GEN  STEP  MEMORY  CPU  METRICS',
    'worker:0  running  node1    1     -   1 GiB  1.0',
    'worker:1  running  node1    1     -   1 GiB  2.5',
    '',
    '',
    'q quit  s order: task  r reverse  up/down scroll  every 2 s',
  ]);
});

test('sorts the tasks, and stops scrolling at the last task', () => {
  const tasks = Array.from({ length: 20 }, (_, index) => busy(index, index, index === 7 ? { state: 'failed' } : {}));
  const first = (view: TopView): string | undefined => jobFrame(seen({ tasks }), view, NOTES, plain(80), 0).lines[3];
  expect(first(order('cpu'))).toContain('worker:19');
  expect(first({ ...order('cpu'), reversed: true })).toContain('worker:0');
  expect(first(order('state'))).toContain('worker:7');
  expect(first({ ...FIRST_VIEW, offset: 3 })).toContain('worker:3');
  const { view, lines } = jobFrame(seen({ tasks }), { ...FIRST_VIEW, offset: 1000 }, NOTES, plain(80), 0);
  expect(view.offset).toBe(14);
  expect(lines.at(-2)).toContain('worker:19');
});

test('shows the reason for waiting below the job, and an outage of the cluster above the keys', () => {
  const waiting = jobFrame(unreportedJob({ id: ID, state: 'waiting', message: 'queue is full' }), FIRST_VIEW, NOTES, plain(80), 0);
  expect(waiting.lines.slice(0, 2)).toEqual([`${ID}  waiting`, '  queue is full']);
  const away = jobFrame(seen({}), FIRST_VIEW, { ...NOTES, notice: 'The ResourceManager does not answer.' }, plain(80), 0);
  expect(away.lines.at(-2)).toBe('The ResourceManager does not answer.');
});

test('shows that an ApplicationMaster does not answer, above the tasks and above the jobs', () => {
  const sentence = 'The ApplicationMaster has not answered for 7 s.';
  const silent = { ...seen({}), masterSilentMs: 7_000 };
  expect(jobFrame(silent, FIRST_VIEW, NOTES, plain(80), 0).lines).toContain(`  ${sentence}`);
  expect(jobFrame(unreportedJob({ ...silent, tasksTotal: null }), FIRST_VIEW, NOTES, plain(80), 0).lines.slice(0, 2)).toEqual([
    `${ID}  running`,
    `  ${sentence}`,
  ]);
  const jobs = jobsFrame([summary({ masterSilentMs: 7_000 })], 'of alice', FIRST_VIEW, NOTES, plain(100), { withUsers: false, now: 0 });
  expect(jobs.lines).toContain(`  ${ID}: ${sentence}`);
});

test('shows the programs that may still be running on a lost node above the tasks', () => {
  const { lines } = jobFrame(seen({ orphanedContainers: [orphanedContainer()] }), FIRST_VIEW, NOTES, plain(140), 0);
  expect(lines[2]).toBe(
    '  worker:1 may still be running on node2:8041 for up to 24 s: YARN considers its container lost, and its executor is not reachable.',
  );
});

const USED = { 'memory-mb': 6144, vcores: 3, 'yarn.io/gpu': 2 };
const summary = (change: Partial<ListedJob>): ListedJob =>
  listedJob(
    unreportedJob({
      id: ID,
      name: 'mnist',
      user: 'alice',
      queue: 'default',
      state: 'running',
      createdAt: 1_000,
      yarn: yarnReport(yarnApplication({ used: USED })),
      ...change,
    }),
  );
const training = summary({
  step: 340,
  metrics: { loss: 0.5, 'profile/step_ms': 3 },
  checkpointStep: 300,
  generations: 1,
  tasksRunning: 2,
  tasksTotal: 2,
});
const held = summary({
  id: 'application_1795225023264_0002',
  state: 'waiting',
  message: 'over the quota',
  yarn: yarnReport(yarnApplication({ used: {}, runningContainers: 1 })),
});

test('the frame of a list shows total resources, a reason for waiting, and one line per job', () => {
  const { lines } = jobsFrame([held, training], 'of yours', FIRST_VIEW, NOTES, plain(200, 7), { withUsers: false, now: 3000 });
  expect(lines).toEqual([
    '2 jobs of yours, 1 of them waiting: 2 tasks, 6 GiB, 3 vcores, 2 GPUs',
    '  application_1795225023264_0002: over the quota',
    'JOB                             NAME   QUEUE    STATE    TOOK  TASKS  STEP  MEMORY  GPUS  METRICS',
    'application_1795225023264_0002  mnist  default  waiting   2 s      0     -       -     0  -',
    'application_1795225023264_0001  mnist  default  running   2 s    2/2   340   6 GiB     2  loss 0.5',
    '',
    'q quit  s order: newest  r reverse  up/down scroll  every 2 s',
  ]);
  const gpus = { ...FIRST_VIEW, order: JOB_ORDERINGS.findIndex(({ name }) => name === 'gpus') };
  const sorted = jobsFrame([held, training], 'of yours', gpus, NOTES, plain(200), { withUsers: true, now: 0 }).lines;
  expect(sorted[3]).toContain('alice');
  expect(sorted[3]).toContain('_0001');
  expect(jobsFrame([], 'of yours', FIRST_VIEW, NOTES, plain(80, 3), { withUsers: false, now: 0 }).lines[0]).toBe(
    'no running jobs of yours',
  );
});

test('in a pipe, a frame shows all tasks but no keys', () => {
  const pipe = terminalOf({}, {});
  const tasks = Array.from({ length: 50 }, (_, index) => busy(index, 1));
  const { lines } = jobFrame(seen({ tasks }), { ...FIRST_VIEW, offset: 5 }, NOTES, { ...pipe, columns: 80, rows: 24 }, 0);
  expect(lines).toHaveLength(52);
  expect(lines.join('\n')).not.toContain('quit');
});

test('a frame never exceeds the window or contains control characters', () => {
  const text = fc.string({ unit: 'binary', maxLength: 100 });
  const any = fc.record({ name: text, message: text, id: text, notice: text, tasks: fc.nat(30), rows: fc.integer({ min: 8, max: 30 }) });
  fc.assert(
    fc.property(any, fc.integer({ min: 21, max: 200 }), ({ name, message, id, notice, tasks, rows }, columns) => {
      const terminal = plain(columns, rows);
      const status = seen({ name, message, tasks: Array.from({ length: tasks }, (_, index) => busy(index, 1, { node: name })) });
      const job = jobFrame(status, FIRST_VIEW, { ...NOTES, notice }, terminal, 0).lines;
      const jobs = jobsFrame([summary({ id, name, message })], 'of yours', FIRST_VIEW, NOTES, terminal, {
        withUsers: true,
        now: 0,
      }).lines;
      for (const lines of [job, jobs]) {
        expect(lines.length).toBeLessThanOrEqual(rows);
        expect(lines.filter((line) => widthOf(line) >= columns || /\p{Cc}/u.test(line))).toEqual([]);
      }
    }),
    { numRuns: 30 },
  );
});
