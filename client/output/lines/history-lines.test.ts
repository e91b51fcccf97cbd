import { expect, test } from 'vitest';
import { jobStatus, orphanedContainer, taskFailure, taskStatus } from '../../../conf/status/job-status.fixture.ts';
import { terminalOf } from '../../terminal/terminal.ts';
import { historyDetails, historyTable } from './history-lines.ts';

const terminal = terminalOf({ columns: 100 });

test('the details of an ended job start with its result', () => {
  const status = jobStatus({ name: 'mnist', state: 'failed', finishedAt: 5_000, message: 'worker:0 failed' });
  const [first, second] = historyDetails({ folder: 'hdfs://nn/h', status, entries: [] }, terminal);
  expect(first).toBe('application_1_0001  failed  mnist');
  expect(second).toBe('submitted by alice to queue default');
});

test('the details list lost nodes even if the list of events is too short to include them', () => {
  const at = new Date(2026, 10, 21, 14, 3, 44).getTime();
  const status = jobStatus({ state: 'succeeded', finishedAt: at + 90_000 });
  const later = Array.from({ length: 30 }, (_, index) => ({ at: at + index, type: 'task-requested', role: 'worker', index }));
  const entries = [{ at, type: 'node-lost', node: 'node2:8041' }, ...later];
  const lines = historyDetails({ folder: 'hdfs://nn/h', status, entries }, terminal);
  expect(lines).toContain('lost nodes: node2:8041 at 2026-11-21 14:03:44');
  expect(historyDetails({ folder: 'hdfs://nn/h', status, entries: later }, terminal).join('\n')).not.toContain('lost nodes');
});

test('the event of a failure names its node once', () => {
  const node = 'node2:8041';
  const entry = { at: 1, type: 'task-failed', role: 'worker', index: 0, node, failure: taskFailure({ node }) };
  const lines = historyDetails({ folder: 'hdfs://nn/h', status: jobStatus(), entries: [entry] }, terminal);
  expect(lines.find((line) => line.includes('task-failed'))).toMatch(
    / task-failed worker:0: its program on node2:8041 exited with code 3$/,
  );
});

test("details and table contain no control characters from a job's files", () => {
  const evil = 'x\x1b]52;c;ZXZpbA==\x07\u202e\x9b2J';
  const failure = taskFailure({ cause: { kind: 'launch', message: evil }, node: evil, lines: [evil] });
  const status = jobStatus({
    name: evil,
    user: evil,
    queue: evil,
    state: 'failed',
    message: evil,
    finishedAt: 5_000,
    checkpointStep: 3,
    checkpointUri: evil,
    summaryUri: evil,
    step: 3,
    notices: [evil],
    metrics: { [evil]: 1 },
    failure: { role: evil, index: 0, ...failure },
    tasks: [taskStatus({ role: 'worker', node: evil, failure, state: 'failed' })],
    orphanedContainers: [orphanedContainer({ node: evil, mayRunForMs: Number.MAX_SAFE_INTEGER })],
  });
  const entry = { at: 1, role: evil, index: 0, node: evil };
  const entries = [
    { ...entry, type: evil, message: evil },
    { ...entry, type: 'task-failed', failure },
  ];
  const place = { jobId: 'application_1_0001', user: evil, folder: evil };
  const lines = [...historyDetails({ folder: evil, status, entries }, terminal), ...historyTable([{ place, status }], terminal, true)];
  expect(lines.join('\n')).not.toMatch(/(?!\n)\p{Cc}|\u202e/u);
});
