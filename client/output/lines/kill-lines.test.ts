import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type JobInfo, unreportedJob } from '../../../conf/status/job-info.ts';
import { reportedJob, taskStatus } from '../../../conf/status/job-status.fixture.ts';
import type { JobStatus, TaskState } from '../../../conf/status/status.ts';
import { killImpact } from '../../connections/operations/kill-job.ts';
import { terminalOf } from '../../terminal/terminal.ts';
import { widthOf } from '../../terminal/text-width.ts';
import { killedLines, killImpactLines } from './kill-lines.ts';

const ID = 'application_1795225023264_0001';
const plain = (columns: number) => terminalOf({ isTTY: true, columns }, { NO_COLOR: '1' });
const seen = (change: Partial<JobStatus>): JobInfo => reportedJob({ id: ID, ...change });
const unreported = (state: JobInfo['state']): JobInfo => unreportedJob({ id: ID, state });
const TASKS = [
  taskStatus({ node: 'node1.example.com:8041' }),
  taskStatus({ index: 1, node: 'node2.example.com:8041' }),
  taskStatus({ index: 2, state: 'requested', node: null, containerId: null }),
  taskStatus({ role: 'ps', node: 'node1.example.com:8041' }),
];
// The job waited in the queue for 30 s.
const training = seen({ startedAt: 30_000, tasks: TASKS, step: 340, checkpointStep: 300 });

test('before a kill, shows tasks per role and node, run time, and steps that would be lost', () => {
  expect(killImpactLines(killImpact(training, 184_000), plain(80))).toEqual([
    `${ID}  mnist  running`,
    '  2 worker on node1, node2; 1 ps on node1',
    '  the job has taken 3 min 4 s',
    '  newest checkpoint: step 300, 40 steps since would be lost',
  ]);
});

test('after a kill, shows the same facts in the past tense, or the result of a job that had already ended', () => {
  const impact = killImpact(training, 500);
  expect(killedLines({ killed: true, impact, job: training }, plain(80))).toEqual([
    `killed ${ID} (mnist, 3 of 4 tasks were running)`,
    '  2 worker on node1, node2; 1 ps on node1',
    '  the job had taken 500 ms',
    '  newest checkpoint: step 300, 40 steps since are lost',
  ]);
  const over: JobInfo = { ...training, state: 'succeeded' };
  const none = killImpact(over, 0);
  expect(none).toMatchObject({ roles: [], tasksRunning: 0, ranMs: null, state: 'succeeded' });
  expect(killedLines({ killed: false, impact: none, job: over }, plain(80))).toEqual([`${ID} had already ended: succeeded`]);
});

test('states that there is no checkpoint, or that no task has a container', () => {
  expect(killImpactLines(killImpact(seen({ step: 7 }), 0), plain(80)).at(-1)).toBe('  no checkpoint: all 7 steps would be lost');
  expect(killImpactLines(killImpact(unreported('waiting'), 0), plain(80))).toEqual([`${ID}  waiting`, '  no task has a container']);
});

test('counts only running programs as running, and omits tasks without a report', () => {
  const gang = seen({
    tasks: ['registered', 'launching', 'running'].map((state, index) => taskStatus({ index, state: state as TaskState })),
  });
  expect(killImpact(gang, 0)).toMatchObject({ tasksRunning: 1, roles: [{ tasks: 3 }] });
  expect(killImpactLines(killImpact(unreported('running'), 0), plain(100))[1]).toBe(
    '  the ApplicationMaster does not answer, so the state of its tasks is unknown',
  );
});

test("no line exceeds the terminal's width or contains control characters", () => {
  const text = fc.string({ unit: 'binary', maxLength: 40 });
  const tasks = fc.array(
    fc.record({ role: text, node: text }).map((change) => taskStatus(change)),
    { maxLength: 30 },
  );
  fc.assert(
    fc.property(tasks, fc.integer({ min: 60, max: 200 }), (all, columns) => {
      const lines = killImpactLines(killImpact(seen({ tasks: all }), 0), plain(columns));
      expect(lines.filter((line) => widthOf(line) >= columns || /\p{Cc}/u.test(line))).toEqual([]);
    }),
    { numRuns: 30 },
  );
});
