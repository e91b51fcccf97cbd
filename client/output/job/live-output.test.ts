import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { reportedJob, taskFailure, taskStatus } from '../../../conf/status/job-status.fixture.ts';
import { terminalOf } from '../../terminal/terminal.ts';
import { LiveOutput } from './live-output.ts';

/** Returns an output that has drawn the table of a running job, and a function that returns everything that it has written. */
function withTable(): { readonly output: LiveOutput; readonly written: () => string } {
  let written = '';
  const output = new LiveOutput(
    (text) => (written += text),
    terminalOf({ isTTY: true, columns: 80 }, { NO_COLOR: '1' }),
    false,
    () => 0,
  );
  output.look({ job: reportedJob({ name: 'mnist', tasks: [] }), events: [] });
  return { output, written: () => written };
}

test('lines of programs appear above the table, without control characters, and wrap to the right of the task', async () => {
  const { output, written } = withTable();
  const table = written();
  const line = { task: 'worker:0', containerId: 'c', file: 'stdout' };
  await output.log(
    [
      { ...line, text: 'loss \x1b[2J0.5' },
      { ...line, text: 'abc '.repeat(20) },
    ],
    ['worker:0', 'worker:10'],
  );
  const shown = stripVTControlCharacters(written().slice(table.length)).replaceAll('\r', '').split('\n');
  expect(shown.slice(0, 3)).toEqual(['worker:0  | loss 0.5', `worker:0  | ${'abc '.repeat(16)}abc`, '          | abc abc abc']);
  expect(shown[3]).toMatch(/^mnist /);
});

test('after a detach, the table stays above the last line and is not redrawn', () => {
  const { output, written } = withTable();
  output.leave('detached');
  const [, afterTable = ''] = written().split(/(?=detached)/);
  expect(written()).toContain('mnist');
  expect(afterTable).toBe('detached\n');
});

test('each failure that starts a new generation stays above the table, but not the tasks that failed only because they lost their peers', () => {
  const { output, written } = withTable();
  const victim = taskStatus({ index: 0, state: 'requested', failure: taskFailure({ cost: 'victim' }) });
  const cause = taskStatus({ index: 1, state: 'requested', failure: taskFailure({ node: 'node2:8041' }) });
  const job = reportedJob({ name: 'mnist', tasks: [victim, cause] });
  const events = [victim, cause].map((task) => ({ type: 'task' as const, ...task }));
  output.look({ job, events });
  const shown = stripVTControlCharacters(written()).replaceAll('\r', '').split('\n');
  expect(shown.filter((line) => line.includes('will restart'))).toEqual([
    'worker:1 will restart: its program on node2:8041 exited with code 3',
  ]);
});
