import fc from 'fast-check';
import { expect, test } from 'vitest';
import { terminalOf } from '../../terminal/terminal.ts';
import { colourOf, LogLines } from './log-lines.ts';

const PIPE = terminalOf({});
const COLOURED = terminalOf({ isTTY: true, columns: 80 }, {});
const PLAIN = terminalOf({ isTTY: true, columns: 80 }, { NO_COLOR: '1' });

const line = (task: string, text: string) => ({ task, text, containerId: 'c', file: 'stdout' });

test("in a pipe, a line consists of the task's name, a bar and the unchanged text", () => {
  const lines = new LogLines({ prefixed: true });
  lines.expect(['worker:10']);
  expect(lines.line(line('worker:0', '\x1b[31mred'), PIPE)).toBe('worker:0 | \x1b[31mred\n');
  expect(new LogLines({ prefixed: false }).line(line('worker:0', 'alone'), PIPE)).toBe('alone\n');
});

test('on a terminal, lines are aligned, have the colour of their task, and contain no control sequences of programs', () => {
  const lines = new LogLines({ prefixed: true });
  lines.expect(['ps:0', 'worker:10']);
  expect(lines.line(line('ps:0', 'a'), PLAIN)).toBe('ps:0      | a\n');
  expect(lines.line(line('evaluators:0', 'a'), PLAIN)).toBe('evaluators:0 | a\n');
  expect(lines.line(line('ps:0', '10 %\r20 %\x1b[2J'), PLAIN)).toBe('ps:0         | 20 %\n');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
  expect(lines.line(line('ps:0', 'a'), COLOURED)).toMatch(/^\x1b\[3\dmps:0 {9}\|\x1b\[39m a\n$/);
});

test("on a terminal, a long line wraps beside the task's name; without names, lines are not wrapped", () => {
  const lines = new LogLines({ prefixed: true });
  const narrow = terminalOf({ isTTY: true, columns: 30 }, { NO_COLOR: '1' });
  expect(lines.line(line('ps:0', 'one two three four\tfive six'), narrow)).toBe('ps:0 | one two three four\n     | five six\n');
  const alone = new LogLines({ prefixed: false });
  expect(alone.line(line('ps:0', 'one two three four five six seven'), narrow)).toBe('one two three four five six seven\n');
});

test('a line of 1 MiB wraps at its spaces, and tabs expand as on a terminal', () => {
  const lines = new LogLines({ prefixed: true });
  const words = 'abc '.repeat(1 << 18);
  expect(lines.line(line('ps:0', words), PLAIN).split('\n').length).toBeGreaterThan(1 << 13);
  expect(lines.line(line('ps:0', 'x'.repeat(1 << 20)), PLAIN)).toHaveLength((1 << 20) + 'ps:0 | \n'.length);
  expect(lines.line(line('ps:0', '学\tb'), PLAIN)).toBe('ps:0 | 学      b\n');
  expect(lines.line(line('ps:0', 'a\tb\tc\t'), PLAIN)).toBe('ps:0 | a       b       c       \n');
});

test('a task always has the same colour, which differs from that of the next task', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z]{1,12}$/), fc.nat(10_000), (role, index) => {
      expect(colourOf(`${role}:${index}`)).toBe(colourOf(`${role}:${index}`));
      expect(colourOf(`${role}:${index}`)).not.toBe(colourOf(`${role}:${index + 1}`));
    }),
  );
  expect(colourOf('master')).toBe(colourOf('master'));
});

test("on a terminal, paths below the program's folder are short, and a line of carets does not wrap", () => {
  const lines = new LogLines({ prefixed: true });
  const text = (source: string) => lines.line({ ...line('ps:0', source), containerId: 'container_1_01_2' }, PLAIN);
  const folder = '/root/.tony-ts/local/jobs/local_1/containers/container_1_01_2/program/12/';
  expect(text(`  File "${folder}train.py", line 3, in ${folder}lib/a.py`)).toBe('ps:0 |   File "train.py", line 3, in lib/a.py\n');
  expect(text(`    at main (file://${folder}train.ts:3:9)`)).toBe('ps:0 |     at main (train.ts:3:9)\n');
  expect(text(`    ${'^'.repeat(200)}`).length).toBeLessThanOrEqual(81);
  expect(lines.line({ ...line('ps:0', `${folder}x`), containerId: 'container_1_01_2' }, PIPE)).toBe(`ps:0 | ${folder}x\n`);
});
