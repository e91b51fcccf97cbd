import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { unreportedJob } from '../../../conf/status/job-info.ts';
import type { HistoryEntry } from '../../../conf/status/status.ts';
import { TonyError } from '../../../platform/errors.ts';
import { fileUri } from '../../../storage/uri.ts';
import type { JobConnection } from '../job-connection.ts';
import { noRecords } from '../job-records.fixture.ts';
import type { JobRecords } from '../job-records.ts';
import { describeJob } from './describe-job.ts';
import { behind, type EventOptions, jobEvents, matches } from './recorded-events.ts';

const entry = (at: number, type: string): HistoryEntry => ({ at, type });
const ALL = [entry(1, 'master-registered'), entry(2, 'task-requested'), entry(3, 'task-failed'), entry(4, 'job-finished')];

async function job(looksUntilEnd: number, { away = 0 } = {}): Promise<JobConnection> {
  const folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-test-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const history = path.join(folder, 'history');
  let looks = 0;
  let missing = away;
  const isOver = (): boolean => looks > looksUntilEnd;
  const write = async (): Promise<void> => {
    await mkdir(history, { recursive: true });
    await writeFile(path.join(history, 'events-1.jsonl'), ALL.map((each) => `${JSON.stringify(each)}\n`).join(''));
  };
  return {
    id: 'local_1_0001',
    trackingUrl: null,
    outputUri: 'file:///nonexistent',
    records: noRecords({
      place: async () => (isOver() ? { jobId: 'local_1_0001', user: 'alice', folder: fileUri(history) } : null),
      ask: async (resource) => {
        const after = Number(/^events\?after=(\d+)$/.exec(resource)?.[1] ?? Number.NaN);
        const entries = ALL.slice(0, looks).slice(after);
        return { entries, next: after + entries.length };
      },
    }),
    pages: async () => null,
    observe: async () => {
      if (looks === 1 && missing-- > 0) {
        throw new TonyError('RM_UNREACHABLE', 'The ResourceManager does not answer.');
      }
      looks++;
      if (isOver()) {
        await write();
      }
      return unreportedJob({ id: 'local_1_0001', state: isOver() ? 'succeeded' : 'running' });
    },
    output: async () => null,
    kill: async () => false,
    logs: async () => [],
    close: () => undefined,
  };
}

async function events(connection: JobConnection, options: EventOptions = {}): Promise<string[]> {
  const all: string[] = [];
  for await (const { type } of jobEvents(connection, { intervalMs: 1, ...options })) {
    all.push(type);
  }
  return all;
}

const NAMES = ALL.map(({ type }) => type);

test('jobEvents yields the events so far of a running job, and the history of an ended one', async () => {
  expect(await events(await job(2))).toEqual(NAMES.slice(0, 1));
  expect(await events(await job(0))).toEqual(NAMES);
});

test('follow yields each event once, in order, across the switch from ApplicationMaster to history', async () => {
  for (const looksUntilEnd of [0, 1, 3, 4]) {
    expect(await events(await job(looksUntilEnd), { follow: true })).toEqual(NAMES);
  }
});

test('follow survives and reports an outage of the cluster', async () => {
  const notices: string[] = [];
  const connection = await job(3, { away: 2 });
  expect(await events(connection, { follow: true, onNotice: (notice) => notices.push(notice) })).toEqual(NAMES);
  expect(notices).toEqual(['The ResourceManager does not answer. The job continues to run. Retrying.', 'The cluster is reachable again.']);
});

test('follow waits if the history is unreachable at the end of the job, and reports the outage once', async () => {
  const connection = await job(3);
  const { place } = connection.records;
  let missing = 5;
  const records: JobRecords = {
    ...connection.records,
    place: async () => {
      const found = await place();
      if (found !== null && missing-- > 0) {
        throw new TonyError('HDFS_UNREACHABLE', 'HDFS does not answer.');
      }
      return found;
    },
  };
  const notices: string[] = [];
  expect(await events({ ...connection, records }, { follow: true, onNotice: (notice) => notices.push(notice) })).toEqual(NAMES);
  expect(notices).toEqual(['HDFS does not answer. The job continues to run. Retrying.', 'The cluster is reachable again.']);
});

test('yields only events of the requested types', async () => {
  expect(await events(await job(0), { types: ['task'] })).toEqual(['task-requested', 'task-failed']);
  expect(await events(await job(0), { types: ['job-finished', 'task-failed'] })).toEqual(['task-failed', 'job-finished']);
  expect(matches(entry(1, 'task-failed'), ['tas'])).toBe(false);
});

test('rejects a job whose events the user may not view', async () => {
  const connection = { ...(await job(0)), records: noRecords() };
  await expect(events(connection)).rejects.toThrow('local_1_0001 has no events that you may view.');
});

test('behind() returns the entries after the last seen one, even if the history has gaps', () => {
  const [first, second, third, fourth] = ALL as [HistoryEntry, HistoryEntry, HistoryEntry, HistoryEntry];
  expect(behind(ALL, null)).toEqual(ALL);
  expect(behind(ALL, second)).toEqual([third, fourth]);
  expect(behind([first, fourth], third)).toEqual([fourth]);
  expect(behind(ALL, fourth)).toEqual([]);
});

/** Returns a running job whose ApplicationMaster is another program. Counts the requests. */
async function hostileJob(page: (after: number) => unknown): Promise<{ connection: JobConnection; requests: () => number }> {
  let requests = 0;
  const records = noRecords({
    place: async () => null,
    ask: async (resource) => {
      requests++;
      return page(Number(/\d+$/.exec(resource)?.[0]));
    },
  });
  return { connection: { ...(await job(Number.MAX_SAFE_INTEGER)), records }, requests: () => requests };
}

test.each<[string, (after: number) => unknown, number]>([
  ['endless pages', (after) => ({ entries: [entry(after, 'x')], next: after + 1 }), 100],
  ['endless large pages', (after) => ({ entries: [{ ...entry(after, 'x'), message: 'x'.repeat(4 << 20) }], next: after + 1 }), 10],
  ['the same page', () => ({ entries: [entry(1, 'x')], next: 1 }), 2],
  ['pages backwards', (after) => ({ entries: [entry(1, 'x')], next: -after }), 1],
  ['a position that is no number of events', () => ({ entries: [entry(1, 'x')], next: 1e300 }), 1],
])('events end without follow, and describe ends, if an ApplicationMaster sends %s', async (_, page, most) => {
  const read = await hostileJob(page);
  const notices: string[] = [];
  await events(read.connection, { onNotice: (notice) => notices.push(notice) }).catch((error: unknown) =>
    expect(error).toMatchObject({ code: 'HISTORY_NOT_FOUND' }),
  );
  expect(read.requests()).toBeLessThanOrEqual(most);
  expect(notices).toHaveLength(most > 2 ? 1 : 0);
  const described = await hostileJob(page);
  await describeJob(described.connection);
  // `describe` also requests the configuration.
  expect(described.requests()).toBeLessThanOrEqual(most + 1);
});

test('with follow, endless pages do not delay the observation that the job has ended', async () => {
  const { connection } = await hostileJob((after) => ({ entries: [entry(after, 'x')], next: after + 1 }));
  let looks = 0;
  const ending: JobConnection = {
    ...connection,
    observe: async () => unreportedJob({ id: 'local_1_0001', state: ++looks > 2 ? 'succeeded' : 'running' }),
  };
  expect((await events(ending, { follow: true })).length).toBe(200);
});
