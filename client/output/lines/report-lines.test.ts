import { expect, test } from 'vitest';
import { reportedJob, taskFailure, taskStatus } from '../../../conf/status/job-status.fixture.ts';
import type { EndedJob } from '../../connections/operations/follow-job.ts';
import { terminalOf } from '../../terminal/terminal.ts';
import { eventLine, reportLines, uploadBar } from './report-lines.ts';

const PLAIN = terminalOf({ isTTY: false });

function report(metrics: Record<string, number>): EndedJob {
  const tasks = [taskStatus(), taskStatus({ role: 'trainer', index: 3, rank: 1 })];
  return { ...reportedJob({ step: 10, metrics, summaryUri: '', tasks }), state: 'succeeded' };
}

test('a failed attempt takes one line; only the final report includes the last lines of stderr', () => {
  const failure = taskFailure({ node: 'n1:8041', lines: ['Error: boom', '    at train.ts:3'] });
  const event = {
    type: 'task',
    role: 'worker',
    index: 0,
    state: 'failed',
    node: 'n1:8041',
    generation: 1,
    attempts: 1,
    exit: { code: 3, signal: null },
    failure,
  } as const;
  expect(eventLine(event, PLAIN, [event])).toBe('worker:0 failed: its program on n1:8041 exited with code 3');
});

test('an event names its node as in the task table, or with the port if the tasks are unknown', () => {
  const running = {
    type: 'task',
    role: 'worker',
    index: 0,
    state: 'running',
    generation: 1,
    attempts: 1,
    exit: null,
    failure: null,
  } as const;
  const event = { ...running, node: 'box.example.com:41001' };
  expect(eventLine(event, PLAIN, [event, { node: 'other.example.com:41001' }])).toBe('worker:0 running on box');
  expect(eventLine(event, PLAIN, [event, { node: 'box.example.com:41002' }])).toBe('worker:0 running on box:41001');
  expect(eventLine(event, PLAIN)).toBe('worker:0 running on box.example.com:41001');
  expect(eventLine({ ...event, node: 'localhost' }, PLAIN)).toBe('worker:0 running on localhost');
});

const LOGS = 'logs: tony-ts logs application_1_0001';

test('the step time is reported in one line, largest part first', () => {
  const lines = reportLines(
    report({
      'train/acc': 0.9922,
      'profile/input_ms': 0.01,
      'profile/compute_ms': 3.637,
      'profile/exchange_ms': 6.211,
      'profile/step_ms': 9.9,
      'profile/slowest_rank': 1,
      'profile/slowest_rank_ms': 4.6,
    }),
    PLAIN,
  );
  expect(lines).toEqual([
    'application_1_0001 succeeded',
    LOGS,
    'train acc: 99.22 %',
    'step time: 6.2 ms exchange, 3.6 ms compute; trainer:3 was the slowest',
  ]);
  expect(reportLines(report({ 'train/acc': 1 }), PLAIN)).toEqual(['application_1_0001 succeeded', LOGS, 'train acc: 100.00 %']);
});

test.each(['failed', 'killed'] as const)('the report of a %s job says how to read its logs, as that of a succeeded one', (state) => {
  expect(reportLines({ ...report({}), state, message: 'worker:0 failed' }, PLAIN)).toEqual([
    `application_1_0001 ${state}`,
    'worker:0 failed',
    LOGS,
  ]);
});

test('the reason for early stopping follows directly below the state', () => {
  const reason = 'stopped early at step 40: val_loss did not improve for 3 evaluations; best 0.31 at step 25';
  expect(reportLines({ ...report({}), message: reason }, PLAIN)).toEqual(['application_1_0001 succeeded', reason, LOGS]);
  const terminal = terminalOf({ isTTY: true, columns: 81 }, { NO_COLOR: '1' });
  expect(reportLines({ ...report({}), message: reason }, terminal)).toEqual([
    'application_1_0001 succeeded',
    'stopped early at step 40: val_loss did not improve for 3 evaluations; best 0.31',
    'at step 25',
    LOGS,
  ]);
});

test.each([
  ['runtime', 81e6, 180e6, 1500, 80, 'runtime  [#########----------]   45 %  81.0 MB of 180.0 MB  54.0 MB/s  2 s left'],
  ['tensorboard', 1.5e9, 12e9, 90_000, 80, 'tensorboard  [#--------]   13 %  1.5 GB of 12.0 GB  16.7 MB/s  10 min 30 s left'],
  // On narrow terminals, the bar is omitted first, then the amounts. The remaining time is always shown.
  ['images-of-street-signs', 1.5e9, 12e9, 90_000, 80, 'images-of-street-signs   13 %  1.5 GB of 12.0 GB  16.7 MB/s  10 min 30 s left'],
  ['images-of-street-signs-in-rain', 1.5e9, 12e9, 90_000, 80, 'images-of-street-signs-in-rain   13 %  16.7 MB/s  10 min 30 s left'],
  ['runtime', 0, 180e6, 0, 80, 'runtime  [------------------------------]    0 %  0 B of 180.0 MB  0 B/s'],
])('the bar of an upload of %s, %d of %d bytes after %d ms, fits %d columns', (name, sent, total, elapsed, columns, line) => {
  expect(uploadBar(name, sent, total, elapsed, columns)).toBe(line);
  expect(line.length).toBeLessThan(columns);
});
