import { expect, test } from 'vitest';
import type { JobConnection, LogSource } from './job-connection.ts';
import { jobLogs, type LogOptions } from './job-logs.ts';

/** Files that grow: each read of a source's end answers what the next look is to see. */
class Growing implements LogSource {
  readonly task: string;
  readonly containerId: string;
  readonly files: Record<string, string> = {};
  readonly #piece: number;

  constructor(task: string, files: Record<string, string>, piece = 1 << 20) {
    this.task = task;
    this.containerId = `container of ${task}`;
    this.files = files;
    this.#piece = piece;
  }

  async read(file: string, from: { readonly offset: number } | { readonly tail: number }) {
    const text = this.files[file];
    if (text === undefined) return null;
    const bytes = Buffer.from(text);
    const start = 'offset' in from ? from.offset : Math.max(0, bytes.length - from.tail);
    const piece = bytes.subarray(start, start + this.#piece);
    return { bytes: piece, end: start + piece.length };
  }
}

function job(sources: () => LogSource[], over: () => boolean = () => true): JobConnection {
  const result = { state: 'SUCCEEDED', diagnostics: '' } as const;
  return {
    applicationId: 'local_1_0001',
    trackingUrl: null,
    pages: async () => null,
    observe: async () => ({ phase: '', waiting: '', status: null, result: over() ? result : null }),
    output: async () => null,
    kill: async () => false,
    logs: async () => sources(),
    close: () => undefined,
  };
}

async function lines(sources: LogSource[], options: LogOptions = {}): Promise<string[]> {
  const all: string[] = [];
  for await (const { task, file, text } of jobLogs(
    job(() => sources),
    options,
  ))
    all.push(`${task} ${file} ${text}`);
  return all;
}

const master = new Growing('master', { 'tony.log': 'am\n' });
const worker = new Growing('worker:0', { stdout: 'one\ntwo\r\nthree', stderr: '', 'tony.log': 'x\n' });
const second = new Growing('worker:1', { stderr: 'bang\n' });

test('stdout and stderr of every task, line by line, the unfinished one too', async () => {
  expect(await lines([master, worker, second])).toEqual([
    'worker:0 stdout one',
    'worker:0 stdout two',
    'worker:0 stdout three',
    'worker:1 stderr bang',
  ]);
});

test('one task, one role, the master, other files', async () => {
  expect(await lines([master, worker, second], { task: 'worker:1' })).toEqual(['worker:1 stderr bang']);
  expect(await lines([master, worker, second], { task: 'worker' })).toHaveLength(4);
  expect(await lines([master, worker, second], { task: 'master' })).toEqual(['master tony.log am']);
  expect(await lines([master, worker], { files: ['tony.log'] })).toEqual(['worker:0 tony.log x']);
  // A job whose tasks never came has nothing else to show.
  expect(await lines([master])).toEqual(['master tony.log am']);
});

test.each([1, 2, 3, 10])('the last %d lines, also when they come in small pieces', async (tail) => {
  const many = Array.from({ length: 3000 }, (_, at) => `line ${at} é`);
  const long = new Growing('worker:0', { stdout: `${many.join('\n')}\n` }, 1000);
  expect(await lines([long], { tail })).toEqual(many.slice(-tail).map((line) => `worker:0 stdout ${line}`));
  expect(await lines([worker], { tail: 1, files: ['stdout'] })).toEqual(['worker:0 stdout three']);
});

test('characters that are cut between two pieces stay whole', async () => {
  expect(await lines([new Growing('worker:0', { stdout: 'äöü\nß' }, 1)])).toEqual(['worker:0 stdout äöü', 'worker:0 stdout ß']);
});

test('following shows what comes, from containers that come, until the job is over', async () => {
  const growing = new Growing('worker:0', { stdout: 'a\nb' });
  let look = 0;
  const connection = job(
    () => {
      look++;
      if (look === 2) growing.files.stdout += 'c\nd\n';
      return look < 3
        ? [growing]
        : [growing, new Growing('worker:0', { stdout: 'again\n' })].map((source, at) =>
            at === 0 ? source : Object.assign(source, { containerId: 'next' }),
          );
    },
    () => look >= 3,
  );
  const all: string[] = [];
  for await (const line of jobLogs(connection, { follow: true, intervalMs: 1 })) all.push(line.text);
  expect(all).toEqual(['a', 'bc', 'd', 'again']);
});

test('a task that is not there is named, with what was meant', async () => {
  await expect(lines([worker, second], { task: 'worker:7' })).rejects.toMatchObject({
    code: 'TASK_UNKNOWN',
    message: 'The job has no task worker:7; did you mean worker:0?',
  });
  await expect(lines([worker], { task: 'wroker' })).rejects.toMatchObject({
    message: expect.stringContaining('worker'),
    hint: 'It has: worker:0.',
  });
  await expect(lines([new Growing('worker:0', {})])).rejects.toMatchObject({ code: 'LOGS_UNAVAILABLE' });
});
