import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { reportedJob, taskFailure } from '../../conf/status/job-status.fixture.ts';
import type { JobResult, JobStatus } from '../../conf/status/status.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { noRecords } from '../connections/job-records.fixture.ts';
import { errorLine, JobHandle, openJob } from './job-handle.ts';

function over(
  result: JobResult,
  options: { output?: string; status?: Partial<JobStatus> } = {},
): JobConnection & { readonly asked: string[] } {
  let looks = 0;
  const asked: string[] = [];
  const line = Buffer.from('hello\n');
  return {
    id: 'application_1_0001',
    outputUri: 'file:///nonexistent',
    trackingUrl: 'http://rm/proxy/application_1_0001/',
    records: noRecords(),
    pages: async () => null,
    observe: async () => {
      return reportedJob({ ...options.status, ...(looks++ === 0 ? {} : result) });
    },
    kill: async () => {
      asked.push('kill');
      return true;
    },
    logs: async () => [
      {
        task: 'worker:0',
        containerId: 'c1',
        read: async (file, from) =>
          file === 'stdout' && 'offset' in from ? { bytes: line.subarray(from.offset), end: line.length } : null,
      },
    ],
    output: async (name) => {
      asked.push(name);
      return options.output === undefined ? null : Buffer.from(options.output);
    },
    close: () => void asked.push('close'),
    asked,
  };
}

const FINE: JobResult = { state: 'succeeded', message: '' };

test('status() has the URL of the pages until the job ends', async () => {
  const job = new JobHandle({ ...over(FINE), pages: async () => 'http://127.0.0.1:1/?token=t' });
  expect((await job.status()).urls.pages).toBe('http://127.0.0.1:1/?token=t');
  expect((await job.status()).urls.pages).toBeNull();
});

test('result() returns the value after onLog has received the last log line', async () => {
  const connection = over(FINE, { output: '{"version":1,"value":{"accuracy":0.5}}' });
  const logLines: string[] = [];
  const job = new JobHandle<{ accuracy: number }>(connection, ({ task, text }) => void logLines.push(`${task} ${text}`));
  expect(job).toMatchObject({ id: 'application_1_0001', trackingUrl: connection.trackingUrl });
  expect(await job.result()).toEqual({ accuracy: 0.5 });
  expect(logLines).toEqual(['worker:0 hello']);
  const lines = [];
  for await (const { text } of job.logs()) {
    lines.push(text);
  }
  expect(lines).toEqual(['hello']);
  job.close();
  expect(connection.asked).toEqual(['result.json', 'close']);
});

test('an abort ends result() immediately, even while the last log lines are pending', async () => {
  const connection = over(FINE, { output: '{"version":1,"value":1}' });
  let listed: () => void = () => undefined;
  const waiting = new Promise<void>((resolve) => {
    listed = resolve;
  });
  const logs = (): Promise<never> => {
    listed();
    return new Promise(() => undefined);
  };
  const job = new JobHandle({ ...connection, logs }, () => undefined);
  await waiting;
  await job.report();
  const stop = new AbortController();
  const result = job.result({ signal: stop.signal });
  // `result()` observes the end in the first turn of the event loop, and then waits only for the logs.
  await turn();
  stop.abort(new Error('enough'));
  await expect(result).rejects.toThrow('enough');
  job.close();
});

test('result() returns undefined without a value, null for null, and rejects a damaged result.json', async () => {
  expect(await new JobHandle(over(FINE, { output: '{"version":1}' })).result()).toBeUndefined();
  expect(await new JobHandle(over(FINE, { output: '{"version":1,"value":null}' })).result()).toBeNull();
  expect(await new JobHandle(over(FINE)).result()).toBeUndefined();
  await expect(new JobHandle(over(FINE, { output: '{"version' })).result()).rejects.toMatchObject({ code: 'JOB_FAILED' });
});

test("result() rejects if the job's function did not return", async () => {
  const called = new JobHandle(over(FINE), undefined, true);
  await expect(called.result()).rejects.toMatchObject({
    code: 'JOB_FAILED',
    message: "application_1_0001 has ended, but its function did not return: the chief's program exited first.",
  });
  const returned = new JobHandle(over(FINE, { output: '{"version":1}' }), undefined, true);
  expect(await returned.result()).toBeUndefined();
});

test('events() ends with the result of the job', async () => {
  const failed: JobResult = { state: 'failed', message: 'worker:0 failed' };
  const events = [];
  for await (const event of new JobHandle(over(failed, { status: { checkpointStep: 7, step: 9 } })).events({ intervalMs: 1 })) {
    events.push(event);
  }
  expect(events[0]).toMatchObject({ type: 'state' });
  expect(events).toContainEqual({ type: 'checkpoint', step: 7 });
  expect(events.at(-1)).toMatchObject({ type: 'result', ...failed, step: 9, checkpointStep: 7 });
  expect(events.filter(({ type }) => type === 'result')).toHaveLength(1);
});

test('openJob rejects a local job that does not exist', async () => {
  const localRoot = mkdtempSync(join(tmpdir(), 'tony-ts-attach-'));
  onTestFinished(() => rmSync(localRoot, { recursive: true }));
  await expect(openJob('local_1_0001', { localRoot })).rejects.toMatchObject({
    code: 'JOB_NOT_FOUND',
    message: expect.stringContaining('The local job local_1_0001'),
  });
});

test('result() rejects for a failed job, with the error line and the last output lines of the failed task', async () => {
  const lines = [
    'epoch 1',
    'file:///train.ts:3',
    "    throw new RangeError('no');",
    'RangeError: no',
    '    at train (file:///train.ts:3:9)',
    '',
    'Node.js v22',
  ];
  const status = { failure: { role: 'worker', index: 1, ...taskFailure({ lines }) } };
  const failed = new JobHandle(over({ state: 'failed', message: 'worker:1 exited with 1' }, { status }));
  await expect(failed.result()).rejects.toMatchObject({
    code: 'JOB_FAILED',
    message: `application_1_0001 has failed in worker:1: RangeError: no\n${lines.map((line) => `  ${line}`).join('\n')}`,
    hint: 'Read the logs: `tony-ts logs application_1_0001`.',
  });
  expect(await failed.report()).toMatchObject({ state: 'failed', message: 'worker:1 exited with 1' });
  const silent = new JobHandle(over({ state: 'failed', message: 'no room in the queue' }));
  await expect(silent.result()).rejects.toThrow('application_1_0001 has failed: no room in the queue');
  await expect(new JobHandle(over({ state: 'killed', message: '' })).result()).rejects.toThrow('application_1_0001 was killed.');
});

test.each([
  [['TypeError: x is not a function'], 'TypeError: x is not a function'],
  [['a', 'Uncaught Error: no', 'b'], 'Uncaught Error: no'],
  [["TonyError [X]: it's", 'z'], "TonyError [X]: it's"],
  [['Errors happened before', 'all fine'], undefined],
  [['Error [ERR_MODULE_NOT_FOUND]: Cannot find'], 'Error [ERR_MODULE_NOT_FOUND]: Cannot find'],
])('errorLine finds the error in %j', (lines, found) => {
  expect(errorLine(lines)).toBe(found);
});
