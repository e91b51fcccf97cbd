import { expect, test } from 'vitest';
import { reportedJob } from '../../../conf/status/job-status.fixture.ts';
import type { LogSource } from '../../connections/job-connection.ts';
import { ProgramLines } from './program-lines.ts';

const OVER = reportedJob({ state: 'succeeded', tasks: [] });

function source(task: string, stdout: string): LogSource {
  return {
    task,
    containerId: `container of ${task}`,
    read: async (file, from) => {
      const bytes = Buffer.from(file === 'stdout' || file === 'tony.log' ? stdout : '');
      const start = 'offset' in from ? from.offset : 0;
      return { bytes: bytes.subarray(start, start + 1000), end: Math.min(bytes.length, start + 1000) };
    },
  };
}

const never = new AbortController().signal;

test.each([
  ['worker:0', ['worker:0 a', 'worker:0 b']],
  [undefined, ['worker:0 a', 'worker:0 b', 'worker:1 c']],
])('the lines of the task %s appear whole and in order', async (task, expected) => {
  const sources = [source('master', '{"msg":"registered"}\n'), source('worker:0', 'a\nb'), source('worker:1', 'c\n')];
  const shown: string[] = [];
  const programs = new ProgramLines({ id: 'a', logs: async () => sources }, task, async (lines) => {
    shown.push(...lines.map((line) => `${line.task} ${line.text}`));
  });
  programs.observed(OVER);
  expect(await programs.end(never)).toBe(true);
  expect(shown).toEqual(expected);
});

test('a job without a program shows nothing, not even the log of its ApplicationMaster', async () => {
  const shown: unknown[] = [];
  const programs = new ProgramLines({ id: 'a', logs: async () => [source('master', 'x\n')] }, undefined, async (lines) => {
    shown.push(...lines);
  });
  programs.observed(OVER);
  expect(await programs.end(never)).toBe(true);
  expect(shown).toEqual([]);
});

test('end() gives up after the quiet period if the output accepts no lines, but a slow output receives all lines', async () => {
  const text = Array.from({ length: 3000 }, (_, at) => `line ${at}\n`).join('');
  const sources = [source('worker:0', text)];
  const stuck = new ProgramLines({ id: 'a', logs: async () => sources }, 'worker:0', () => new Promise(() => undefined), 20);
  stuck.observed(OVER);
  expect(await stuck.end(never)).toBe(false);

  let shown = 0;
  const slow = new ProgramLines({ id: 'a', logs: async () => sources }, 'worker:0', async (lines) => {
    await new Promise<void>((resolve) => setImmediate(resolve));
    shown += lines.length;
  });
  slow.observed(OVER);
  expect(await slow.end(never)).toBe(true);
  expect(shown).toBe(3000);
});

test('end() returns false if the logs cannot be read, or after an abort', async () => {
  const lost = new ProgramLines({ id: 'a', logs: () => Promise.reject(new Error('lost')) }, undefined, async () => undefined);
  lost.observed(OVER);
  expect(await lost.end(never)).toBe(false);
  const waiting = new ProgramLines({ id: 'a', logs: () => new Promise(() => undefined) }, undefined, async () => undefined);
  waiting.observed(OVER);
  expect(await waiting.end(AbortSignal.abort())).toBe(false);
  waiting.stop();
});
