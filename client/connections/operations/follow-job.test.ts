import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { isOver, type JobInfo, unreportedJob, yarnReport } from '../../../conf/status/job-info.ts';
import { reportedJob, taskStatus } from '../../../conf/status/job-status.fixture.ts';
import type { JobStatus, TaskStatus } from '../../../conf/status/status.ts';
import { yarnApplication } from '../../../hadoop/yarn/application.fixture.ts';
import { TonyError } from '../../../platform/errors.ts';
import { LiveOutput } from '../../output/job/live-output.ts';
import { TextOutput } from '../../output/job/text-output.ts';
import { ValueOutput } from '../../output/job/value-job-output.ts';
import { stagingLine, uploadBar } from '../../output/lines/report-lines.ts';
import { statusLines } from '../../output/lines/status-lines.ts';
import { valueFormatter } from '../../output/lines/value-output.ts';
import { terminalOf } from '../../terminal/terminal.ts';
import type { JobConnection } from '../job-connection.ts';
import { noRecords } from '../job-records.fixture.ts';
import { type EndedJob, followJob, intervalAfter, type Look } from './follow-job.ts';

const ID = 'application_1_0001';

const task = (change: Partial<TaskStatus> = {}): TaskStatus =>
  taskStatus({ usage: { memoryBytes: 2 ** 28, cpuCores: 1, gpus: [], stopped: false }, ...change });
const status = (change: Partial<JobStatus> = {}): JobInfo => reportedJob({ id: ID, tasks: [task()], ...change });

function unreported(change: Partial<JobInfo> = {}): JobInfo {
  return unreportedJob({ id: ID, state: 'running', ...change });
}

function scripted(looks: readonly (JobInfo | Error)[]): JobConnection {
  let at = 0;
  return {
    id: ID,
    trackingUrl: null,
    outputUri: 'file:///nonexistent',
    records: noRecords(),
    pages: async () => null,
    observe: async () => {
      const look = looks[Math.min(at++, looks.length - 1)];
      if (look instanceof Error || look === undefined) {
        throw look;
      }
      return look;
    },
    output: async () => null,
    kill: async () => false,
    logs: async () => [],
    close: () => undefined,
  };
}

async function follow(looks: readonly (JobInfo | Error)[], maxWaitMs = 60_000): Promise<{ looks: Look[]; report: EndedJob }> {
  const following = followJob(scripted(looks), { intervalMs: 1, maxWaitMs });
  const all: Look[] = [];
  for (;;) {
    const next = await following.next();
    if (next.done) {
      return { looks: all, report: next.value };
    }
    all.push(next.value);
  }
}

const unreachable = new TonyError('RM_UNREACHABLE', 'No ResourceManager could be reached.');
const life = [
  unreported({ state: 'waiting', message: 'queue is full' }),
  unreported({ state: 'waiting', message: 'queue is full' }),
  status({ state: 'waiting', message: 'worker:1 is missing', tasks: [task({ state: 'requested' })] }),
  status({ step: 10, metrics: { loss: 0.5 } }),
  status({ step: 20, metrics: { loss: 0.25 }, checkpointStep: 20, notices: ['skipped a checkpoint'] }),
  status({
    state: 'succeeded',
    step: 30,
    metrics: { 'test/accuracy': 0.98714 },
    checkpointStep: 30,
    tasks: [task({ state: 'succeeded', exit: { code: 0, signal: null } })],
  }),
];

test('followJob yields each change of a job once, until the job ends, and returns a report', async () => {
  const { looks, report } = await follow(life);
  expect(looks.flatMap((look) => look.events.map((event) => event.type))).toEqual([
    'state',
    'state',
    'task',
    'state',
    'task',
    'metrics',
    'notice',
    'checkpoint',
    'metrics',
    'state',
    'task',
    'checkpoint',
    'metrics',
  ]);
  expect(report).toMatchObject({ state: 'succeeded', generations: 1, metrics: { 'test/accuracy': 0.98714 }, checkpointStep: 30 });
});

test('a job is observed less often while no task changes its state', () => {
  expect([0, 10_000, 30_000, 3_600_000].map(intervalAfter)).toEqual([250, 500, 1000, 1000]);
});

test('a job has not ended before YARN has recorded its result', async () => {
  const running = { ...status({ state: 'succeeded' }), yarn: yarnReport(yarnApplication({ state: 'RUNNING' })) };
  const ended = { ...running, state: 'failed' as const, yarn: yarnReport(yarnApplication({ state: 'FINISHED' })) };
  expect([running, ended].map(isOver)).toEqual([false, true]);
  const { report } = await follow([running, ended]);
  expect(report.state).toBe('failed');
});

test('followJob waits during an outage of the cluster, and reports the outage once', async () => {
  const { looks, report } = await follow([unreported(), unreachable, unreachable, unreachable, ...life]);
  const notices = looks.flatMap((look) => look.events.flatMap((event) => (event.type === 'notice' ? [event.message] : [])));
  expect(notices).toEqual([
    'No ResourceManager could be reached. The job continues to run. Retrying.',
    'The cluster is reachable again.',
    'skipped a checkpoint',
  ]);
  expect(report.state).toBe('succeeded');
});

test('followJob throws if the cluster never answered, stays unreachable, or does not know the job', async () => {
  await expect(follow([unreachable])).rejects.toBe(unreachable);
  await expect(follow([unreported(), unreachable], 100)).rejects.toBe(unreachable);
  const unknown = new TonyError('JOB_NOT_FOUND', 'gone');
  await expect(follow([unreported(), unknown])).rejects.toBe(unknown);
});

test('an abort ends followJob immediately between two observations', async () => {
  const controller = new AbortController();
  const following = followJob(scripted([unreported()]), { intervalMs: 60_000, signal: controller.signal });
  await following.next();
  const next = following.next();
  controller.abort(new Error('detached'));
  await expect(next).rejects.toThrow('detached');
});

test('an abort ends followJob immediately during an observation', async () => {
  const controller = new AbortController();
  const hanging: JobConnection = { ...scripted([unreported()]), observe: () => new Promise(() => undefined) };
  const next = followJob(hanging, { signal: controller.signal }).next();
  controller.abort(new Error('detached'));
  await expect(next).rejects.toThrow('detached');
});

test.each([
  [
    'json',
    (text: string) =>
      text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { type: string }),
  ],
  ['yaml', (text: string) => parseAllDocuments(text).map((document) => document.toJS() as { type: string })],
] as const)('%s output has one value per event, and the result last', async (format, valuesOf) => {
  const { looks, report } = await follow(life);
  const formatted = await valueFormatter(format);
  let text = '';
  const output = new ValueOutput((value) => {
    text += formatted(value);
  });
  output.staging({ type: 'unchanged', name: 'source', bytes: 5 });
  output.staging({ type: 'upload', name: 'tony', sent: 0, total: 9 });
  output.staging({ type: 'upload', name: 'tony', sent: 9, total: 9 });
  output.submitted({ id: ID, name: 'mnist', user: 'alice', queue: 'default', trackingUrl: null });
  for (const look of looks) {
    output.look(look);
  }
  output.report(report);
  const lines = valuesOf(text);
  const head = { apiVersion: 'tony-ts/v1', kind: 'JobEvent' };
  expect(lines.slice(0, 3)).toMatchObject([
    { ...head, type: 'staged', name: 'source', bytes: 5, uploaded: false },
    { ...head, type: 'staged', name: 'tony', bytes: 9, uploaded: true },
    { ...head, type: 'submitted', id: ID, state: 'submitted', name: 'mnist', user: 'alice', urls: { pages: null, tracking: null } },
  ]);
  expect(lines.at(-1)).toMatchObject({
    type: 'result',
    state: 'succeeded',
    id: ID,
    tasks: [{ role: 'worker', index: 0, state: 'succeeded', exit: { code: 0, signal: null }, attempts: 1 }],
    metrics: { 'test/accuracy': 0.98714 },
    generations: 1,
  });
});

test('text output shows changes only, metrics at intervals, and the accuracy at the end', async () => {
  const { looks, report } = await follow(life);
  let text = '';
  const output = new TextOutput(
    (piece) => {
      text += piece;
    },
    terminalOf({}, {}),
    false,
  );
  output.staging({ type: 'unchanged', name: 'source', bytes: 12_345 });
  for (const look of looks) {
    output.look(look);
  }
  output.report(report);
  expect(text.split('\n')).toEqual([
    'source unchanged (12.3 kB already on HDFS)',
    'waiting: queue is full',
    'waiting: worker:1 is missing',
    'running',
    'worker:0 running on node1',
    'step 10  loss 0.5',
    'skipped a checkpoint',
    'checkpoint of step 20',
    'worker:0 succeeded on node1',
    'checkpoint of step 30',
    `${ID} succeeded`,
    'checkpoints: hdfs://nn/c (newest: step 30)',
    'summaries: hdfs://nn/s',
    'logs: tony-ts logs application_1_0001',
    'test accuracy: 98.71 %',
    '',
  ]);
});

test('live output redraws in place, and leaves the final table and a visible cursor', async () => {
  const { looks, report } = await follow(life);
  let screen: string[] = [''];
  let text = '';
  const output = new LiveOutput(
    (piece) => {
      text += piece;
      screen = show(screen, piece);
    },
    terminalOf({ isTTY: true, columns: 80, rows: 24 }, { NO_COLOR: '1' }),
    false,
    () => 3000,
  );
  output.staging({ type: 'upload', name: 'runtime', sent: 0, total: 100 });
  output.staging({ type: 'upload', name: 'runtime', sent: 50, total: 100 });
  expect(screen.join('\n')).toContain('50 %');
  output.staging({ type: 'upload', name: 'runtime', sent: 100, total: 100 });
  for (const look of looks) {
    output.look(look);
  }
  output.ask('Detach?');
  expect(screen.at(-2)).toBe('Detach?');
  output.report(report);
  output.close();
  expect(screen).toEqual([
    'runtime uploaded (100 B)',
    'skipped a checkpoint',
    'mnist  succeeded  step 30  test/accuracy 0.9871  checkpoint 30  3 s',
    'TASK      STATE      NODE   GEN  STEP   MEMORY  CPU  METRICS',
    'worker:0  succeeded  node1    1     -  256 MiB  1.0',
    `${ID} succeeded`,
    'checkpoints: hdfs://nn/c (newest: step 30)',
    'summaries: hdfs://nn/s',
    'logs: tony-ts logs application_1_0001',
    'test accuracy: 98.71 %',
    '',
  ]);
  expect(text.lastIndexOf('\x1b[?25h')).toBeGreaterThan(text.lastIndexOf('\x1b[?25l'));
});

/** Emulates the terminal features of the live output: lines, cursor up, and clear to the end of the screen. */
function show(screen: readonly string[], piece: string): string[] {
  const lines = [...screen];
  const csi = '\u001b\\[';
  const pieces = piece.replace(new RegExp(`${csi}\\?25[lh]`, 'g'), '').split(new RegExp(`(${csi}\\d+A\\r${csi}J|\\n)`));
  for (const part of pieces) {
    const up = new RegExp(`^${csi}(\\d+)A`).exec(part)?.[1];
    if (up !== undefined) {
      lines.splice(lines.length - 1 - Number(up), Number(up) + 1, '');
    } else if (part === '\n') {
      lines.push('');
    } else {
      lines[lines.length - 1] += part;
    }
  }
  return lines;
}

test('the output of status ends with the cause of a failure and the way to its logs', () => {
  const failed = status({ state: 'failed', message: 'worker:0 exited with 3.\nboom\nRaise it.' });
  const lines = statusLines(failed, terminalOf({ columns: 80 }, {}), 1000);
  expect(lines.slice(-5)).toEqual([`${ID} failed`, 'worker:0 exited with 3.', '  boom', '  Raise it.', `logs: tony-ts logs ${ID}`]);
  expect(lines.filter((line) => line.includes('exited with 3'))).toHaveLength(1);
  const urls = { pages: 'http://rm', tracking: 'http://rm' };
  const waiting = statusLines(unreported({ state: 'waiting', message: 'full', urls }), terminalOf({}, {}), 0);
  expect(waiting).toEqual([`${ID} waiting: full`, 'pages: http://rm']);
});

test.each([20, 40, 60, 80, 200])('an upload bar fits %d columns', (columns) => {
  expect(uploadBar('runtime', 81e6, 180e6, 1500, columns).length).toBeLessThan(columns);
});

test('an upload bar states the rate and the remaining time', () => {
  expect(uploadBar('runtime', 81e6, 180e6, 1500, 100)).toBe(
    'runtime  [##############----------------]   45 %  81.0 MB of 180.0 MB  54.0 MB/s  2 s left',
  );
  expect(stagingLine({ type: 'upload', name: 'x', sent: 1, total: 2 }, false)).toBeUndefined();
});
