import fc from 'fast-check';
import { expect, test } from 'vitest';
import { taskFailure } from '../../../conf/status/job-status.fixture.ts';
import type { HistoryEntry } from '../../../conf/status/status.ts';
import { terminalOf } from '../../terminal/terminal.ts';
import { widthOf } from '../../terminal/text-width.ts';
import { eventLines } from './event-lines.ts';

const plain = (columns: number) => terminalOf({ isTTY: true, columns }, { NO_COLOR: '1' });
const PIPE = terminalOf({}, {});
const at = new Date(2026, 10, 21, 14, 3, 44).getTime();
const failed: HistoryEntry = {
  at,
  type: 'task-failed',
  role: 'worker',
  index: 1,
  node: 'node7.example.com:8041',
  attempt: 2,
  generation: 3,
  failure: taskFailure({ node: 'node7.example.com:8041', lines: ['TypeError: x is not a function'] }),
};

test("an event line has time, task, type and details, with the node once, followed by the task's last output lines", () => {
  expect(eventLines(failed, plain(200))).toEqual([
    '2026-11-21 14:03:44  worker:1      task-failed          its program on node7.example.com:8041 exited with code 3, container 2, generation 3',
    '    Last lines of its stderr:',
    '    TypeError: x is not a function',
  ]);
  expect(eventLines({ at, type: 'master-registered' }, PIPE)).toEqual(['2026-11-21 14:03:44                master-registered']);
});

test('a failure whose text does not name the node is followed by the node', () => {
  const launched = { ...failed, failure: taskFailure({ cause: { kind: 'impossible', message: 'no node is large enough' }, node: 'n1:1' }) };
  expect(eventLines(launched, PIPE)[0]).toMatch(/ no node is large enough on node7\.example\.com:8041, container 2, generation 3$/);
});

test('the line of a lost node names the node but no task', () => {
  const lost = { at, type: 'node-lost', node: 'node7.example.com:8041', message: 'it ran 2 tasks of the job' };
  expect(eventLines(lost, PIPE)).toEqual([
    '2026-11-21 14:03:44                node-lost            it ran 2 tasks of the job on node7.example.com:8041',
  ]);
});

test('an event takes several lines on a narrow terminal, and one line in a pipe', () => {
  expect(eventLines(failed, plain(80)).slice(0, 2)).toEqual([
    '14:03:44  worker:1      task-failed',
    '    its program on node7.example.com:8041 exited with code 3, container 2,',
  ]);
  const long = { at, type: 'notice', message: 'x'.repeat(500) };
  expect(eventLines(long, PIPE)[0]).toContain('x'.repeat(500));
});

test('a line contains the port of a NodeManager, and no port for a local job', () => {
  expect(eventLines({ at, type: 'container-allocated', node: 'box:41001' }, PIPE)[0]).toMatch(/ on box:41001$/);
  expect(eventLines({ at, type: 'container-allocated', node: 'localhost' }, PIPE)[0]).toMatch(/ on localhost$/);
});

test('a tab becomes one space, because its width is unknown', () => {
  expect(eventLines({ at, type: 'notice', message: 'died\n\tat\tmain' }, plain(80))[1]).toBe('     at main');
});

test("no line exceeds the terminal's width or contains control characters", () => {
  const text = fc.string({ unit: 'binary', maxLength: 200 });
  const any = fc.record({ at: fc.double(), type: text, role: text, index: fc.nat(), node: text, message: text });
  fc.assert(
    fc.property(any, fc.integer({ min: 21, max: 200 }), (entry, columns) => {
      expect(eventLines(entry, plain(columns)).filter((line) => widthOf(line) >= columns || /\p{Cc}/u.test(line))).toEqual([]);
    }),
    { numRuns: 30 },
  );
});
