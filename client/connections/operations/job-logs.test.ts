import { expect, test } from 'vitest';
import { type JobInfo, unreportedJob } from '../../../conf/status/job-info.ts';
import { reportedJob } from '../../../conf/status/job-status.fixture.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { JobConnection, LogSource } from '../job-connection.ts';
import { noRecords } from '../job-records.fixture.ts';
import { jobLogs, type LogOptions } from './job-logs.ts';

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
    if (text === undefined) {
      return null;
    }
    const bytes = Buffer.from(text);
    const start = 'offset' in from ? from.offset : Math.max(0, bytes.length - from.tail);
    const piece = bytes.subarray(start, start + this.#piece);
    return { bytes: piece, end: start + piece.length };
  }
}

function job(sources: () => LogSource[], over: () => boolean = () => true): JobConnection {
  return {
    id: 'local_1_0001',
    trackingUrl: null,
    outputUri: 'file:///nonexistent',
    records: noRecords(),
    pages: async () => null,
    observe: async () => unreportedJob({ id: 'local_1_0001', state: over() ? 'succeeded' : 'running' }),
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
  )) {
    all.push(`${task} ${file} ${text}`);
  }
  return all;
}

const master = new Growing('master', { 'tony.log': 'am\n' });
const worker = new Growing('worker:0', { stdout: 'one\ntwo\r\nthree', stderr: '', 'tony.log': 'x\n' });
const second = new Growing('worker:1', { stderr: 'bang\n' });

test('reads stdout and stderr of every task by line, including an unfinished last line', async () => {
  expect(await lines([master, worker, second])).toEqual([
    'worker:0 stdout one',
    'worker:0 stdout two',
    'worker:0 stdout three',
    'worker:1 stderr bang',
  ]);
});

test('selects one task, one role, the ApplicationMaster, or other files', async () => {
  expect(await lines([master, worker, second], { task: 'worker:1' })).toEqual(['worker:1 stderr bang']);
  expect(await lines([master, worker, second], { task: 'worker' })).toHaveLength(4);
  expect(await lines([master, worker, second], { task: 'master' })).toEqual(['master tony.log am']);
  expect(await lines([master, worker], { files: ['tony.log'] })).toEqual(['worker:0 tony.log x']);
  expect(await lines([master])).toEqual(['master tony.log am']);
});

test.each([1, 2, 3, 10])('tail returns the last %d lines, even when reads return small pieces', async (tail) => {
  const many = Array.from({ length: 3000 }, (_, at) => `line ${at} é`);
  const long = new Growing('worker:0', { stdout: `${many.join('\n')}\n` }, 1000);
  expect(await lines([long], { tail })).toEqual(many.slice(-tail).map((line) => `worker:0 stdout ${line}`));
  expect(await lines([worker], { tail: 1, files: ['stdout'] })).toEqual(['worker:0 stdout three']);
});

test('decodes characters that are split between two pieces', async () => {
  expect(await lines([new Growing('worker:0', { stdout: 'äöü\nß' }, 1)])).toEqual(['worker:0 stdout äöü', 'worker:0 stdout ß']);
});

test('follow reads new lines and new containers until the job ends', async () => {
  const growing = new Growing('worker:0', { stdout: 'a\nb' });
  let look = 0;
  const connection = job(
    () => {
      look++;
      if (look === 2) {
        growing.files.stdout += 'c\nd\n';
      }
      return look < 3
        ? [growing]
        : [growing, new Growing('worker:0', { stdout: 'again\n' })].map((source, at) =>
            at === 0 ? source : Object.assign(source, { containerId: 'next' }),
          );
    },
    () => look >= 3,
  );
  const all: string[] = [];
  for await (const line of jobLogs(connection, { follow: true, intervalMs: 1 })) {
    all.push(line.text);
  }
  expect(all).toEqual(['a', 'bc', 'd', 'again']);
});

test('rejects an unknown task, with a suggestion', async () => {
  await expect(lines([worker, second], { task: 'worker:7' })).rejects.toMatchObject({
    code: 'TASK_NOT_FOUND',
    message: 'The job has no task worker:7; did you mean worker:0?',
  });
  await expect(lines([worker], { task: 'wroker' })).rejects.toMatchObject({
    message: expect.stringContaining('worker'),
    hint: 'Its tasks are: worker:0.',
  });
  await expect(lines([new Growing('worker:0', {})])).rejects.toMatchObject({ code: 'LOGS_UNAVAILABLE' });
});

const AWAY = new TonyError('RM_UNREACHABLE', 'The ResourceManager does not answer.');

/** A job that returns one element of `looks` per observation, or throws an element that is an error. The last element repeats. */
function connectionWith(
  looks: readonly (Partial<JobInfo> | TonyError)[],
  sources: (look: number) => LogSource[],
  before: (look: number) => void = () => undefined,
): JobConnection {
  let look = 0;
  return {
    ...job(() => sources(look - 1)),
    observe: async () => {
      before(look);
      const seen = looks[Math.min(look++, looks.length - 1)];
      if (seen instanceof TonyError) {
        throw seen;
      }
      return unreportedJob({ id: 'local_1_0001', state: 'running', ...seen });
    },
  };
}

const OVER = { state: 'succeeded' } as const;

async function followed(
  connection: JobConnection,
  options: LogOptions = {},
): Promise<{ texts: string[]; notices: string[]; tasks: string[] }> {
  const [texts, notices, tasks]: string[][] = [[], [], []];
  const onNotice = (notice: string): void => void notices?.push(notice);
  const onTasks = (names: readonly string[]): void => void tasks?.push(names.join());
  for await (const line of jobLogs(connection, { follow: true, intervalMs: 1, onNotice, onTasks, ...options })) {
    texts?.push(line.text);
  }
  return { texts: texts ?? [], notices: notices ?? [], tasks: tasks ?? [] };
}

test.each([[{}], [{ task: 'worker:0' }]])('says that the logs of a job that the user may not view are denied (%j)', async (options) => {
  const connection = connectionWith([{ message: 'a job of alice, and bob is not in its acls.view' }], () => []);
  await expect(followed(connection, { follow: false, ...options })).rejects.toMatchObject({
    code: 'ACCESS_DENIED',
    message: expect.stringMatching(/^The logs of \S+ cannot be found\.$/),
    hint: 'a job of alice, and bob is not in its acls.view',
  });
});

test('logs of a job without reported tasks do not exist yet', async () => {
  const connection = connectionWith([{ state: 'waiting', message: 'waits for a node' }], () => []);
  await expect(followed(connection, { follow: false, task: 'worker:0' })).rejects.toMatchObject({
    code: 'LOGS_UNAVAILABLE',
    hint: 'waits for a node',
  });
});

test('follow survives outages during observations and reads, and yields each line exactly once', async () => {
  const growing = new Growing('worker:0', { stdout: 'a\nb\n' });
  const steady = new Growing('worker:1', { stdout: 'c\n' });
  const calm = growing.read.bind(growing);
  let reads = 0;
  growing.read = async (file, from) => {
    if (++reads === 5) {
      throw new TonyError('HDFS_UNREACHABLE', 'HDFS does not answer.');
    }
    return calm(file, from);
  };
  const connection = connectionWith(
    [{}, {}, {}, AWAY, AWAY, {}, OVER],
    () => [growing, steady],
    (look) => {
      if (look === 5) {
        growing.files.stdout += 'd\n';
      }
    },
  );
  const { texts, notices } = await followed(connection);
  expect(texts.toSorted()).toEqual(['a', 'b', 'c', 'd']);
  expect(notices).toContain('The ResourceManager does not answer. The job continues to run. Retrying.');
  expect(notices.filter((notice) => notice === 'The cluster is reachable again.').length).toBeGreaterThan(0);
  await expect(followed(connectionWith([AWAY], () => [growing]))).rejects.toThrow(AWAY);
  await expect(
    followed(
      connectionWith([{}, AWAY], () => [growing]),
      { maxWaitMs: 20 },
    ),
  ).rejects.toThrow(AWAY);
});

test('follow reports once what the job waits for, and reads its containers when they start', async () => {
  const status = reportedJob({ id: 'local_1_0001', state: 'waiting', message: 'no room' });
  const unplaced = { ...status, tasks: status.tasks.map((task) => ({ ...task, containerId: null, nodeHttp: null })) };
  const first = `${status.tasks[0]?.role}:${status.tasks[0]?.index}`;
  const looks = [
    { state: 'waiting', message: 'the queue is full' } as const,
    { state: 'waiting', message: 'the queue is full' } as const,
    unplaced,
    OVER,
  ];
  const { texts, notices, tasks } = await followed(
    connectionWith(looks, (look) => (look < 3 ? [] : [new Growing(first, { stdout: 'hello\n' })])),
    { task: first },
  );
  expect(texts).toEqual(['hello']);
  expect(notices).toEqual([
    'local_1_0001 has not started yet: waiting: the queue is full',
    `Waiting for a container for ${first}: waiting: no room`,
  ]);
  expect(tasks[0]).toBe(first);
});

test('follow continues with the new container of a restarted task, and reports the restart', async () => {
  const older = new Growing('worker:0', { stdout: 'before\n' });
  const newer = Object.assign(new Growing('worker:0', { stdout: 'after\n' }), { containerId: 'another container' });
  const { texts, notices } = await followed(
    connectionWith([{}, {}, OVER], (look) => (look === 0 ? [older] : [older, newer])),
    { tail: 5 },
  );
  expect(texts).toEqual(['before', 'after']);
  expect(notices).toEqual(['worker:0 was restarted in another container.']);
});

test('an unreadable log does not hide the others; follow retries it while the job runs', async () => {
  const broken = Object.assign(new Growing('worker:0', {}), {
    read: async () => {
      throw new TonyError('LOGS_UNAVAILABLE', 'It is damaged.');
    },
  });
  const texts: string[] = [];
  const reading = async (): Promise<void> => {
    for await (const { text } of jobLogs(job(() => [broken, second]))) {
      texts.push(text);
    }
  };
  await expect(reading()).rejects.toThrow('It is damaged.');
  expect(texts).toEqual(['bang']);
  // The node may be shutting down while the job runs.
  let healed = false;
  const passing = Object.assign(new Growing('worker:0', { stdout: 'x\n' }), {
    read: async (file: string, from: { readonly offset: number } | { readonly tail: number }) => {
      if (!healed) {
        throw new TonyError('LOGS_UNAVAILABLE', 'The node does not answer.');
      }
      return new Growing('worker:0', { stdout: 'x\n' }).read(file, from);
    },
  });
  const { texts: late, notices } = await followed(
    connectionWith([{}, {}, OVER], (look) => {
      healed = look === 2;
      return [passing];
    }),
  );
  expect(late).toEqual(['x']);
  expect(notices).toEqual(['The node does not answer. Retrying.']);
});

test('an abort ends follow immediately, even during a request', async () => {
  const stop = new AbortController();
  const hanging: JobConnection = { ...job(() => []), observe: () => new Promise(() => undefined) };
  const reading = followed(hanging, { signal: stop.signal });
  stop.abort(new Error('enough'));
  await expect(reading).rejects.toThrow('enough');
});

test('follow yields the lines of all tasks as they arrive, not task after task', async () => {
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const slow = new Growing('worker:0', { stdout: 'late\n' });
  const calm = slow.read.bind(slow);
  slow.read = async (file, from) => {
    await gate;
    return calm(file, from);
  };
  const texts: string[] = [];
  for await (const { text } of jobLogs(
    connectionWith([{}, OVER], () => [slow, second]),
    { follow: true, intervalMs: 1 },
  )) {
    texts.push(text);
    release();
  }
  expect(texts).toEqual(['bang', 'late']);
});
