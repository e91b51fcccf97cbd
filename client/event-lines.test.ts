import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { HistoryEntry } from '../conf/status.ts';
import { eventLines } from './event-lines.ts';
import { terminalOf } from './terminal.ts';
import { widthOf } from './text-width.ts';

const plain = (columns: number) => terminalOf({ isTTY: true, columns }, { NO_COLOR: '1' });
const PIPE = terminalOf({}, {});
const at = new Date(2026, 10, 21, 14, 3, 44).getTime();
const failed: HistoryEntry = {
  at,
  event: 'task-failed',
  role: 'worker',
  index: 1,
  node: 'node7.example.com:8041',
  attempt: 2,
  generation: 3,
  detail: 'its program exited with code 3\nthe last lines of stderr:\nTypeError: x is not a function',
};

test('when, which task, what, and its last lines below', () => {
  expect(eventLines(failed, plain(200))).toEqual([
    '2026-11-21 14:03:44  worker:1      task-failed          its program exited with code 3 on node7.example.com, container 2, generation 3',
    '    the last lines of stderr:',
    '    TypeError: x is not a function',
  ]);
  expect(eventLines({ at, event: 'master-registered' }, PIPE)).toEqual(['2026-11-21 14:03:44                master-registered']);
});

test('a narrow terminal has it in more lines, a pipe in one', () => {
  expect(eventLines(failed, plain(80)).slice(0, 2)).toEqual([
    '14:03:44  worker:1      task-failed',
    '    its program exited with code 3 on node7.example.com, container 2,',
  ]);
  const long = { ...failed, detail: 'x'.repeat(500) };
  expect(eventLines(long, PIPE)[0]).toContain('x'.repeat(500));
});

test('a tab takes the room of a blank: nobody knows how wide it would be', () => {
  expect(eventLines({ at, event: 'task-failed', detail: 'died\n\tat\tmain' }, plain(80))[1]).toBe('     at main');
});

test('no line is wider than the terminal, and none steers it', () => {
  const text = fc.string({ unit: 'binary', maxLength: 200 });
  const any = fc.record({ at: fc.double(), event: text, role: text, index: fc.nat(), node: text, detail: text });
  fc.assert(
    fc.property(any, fc.integer({ min: 21, max: 200 }), (entry, columns) => {
      expect(eventLines(entry, plain(columns)).filter((line) => widthOf(line) >= columns || /\p{Cc}/u.test(line))).toEqual([]);
    }),
    { numRuns: 30 },
  );
});
