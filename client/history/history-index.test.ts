import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { jobStatus } from '../../conf/status/job-status.fixture.ts';
import type { JobStatus } from '../../conf/status/status.ts';
import { TonyError } from '../../platform/errors.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { ClusterAnswer } from '../records/stored-status.ts';
import { HistoryIndex } from './history-index.ts';

const MiB = 1 << 20;
const LIMITS = { userBytes: 4 * MiB, userMs: 10_000, ms: 30_000 };
let root: string;
let opened: { readonly name: string; readonly bytes: number }[];
let beforeOpen: (uri: string) => void;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'tony-ts-index-'));
  opened = [];
  beforeOpen = () => undefined;
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

class WatchedStorage extends FileStorage {
  override async open(uri: string, range: { offset?: number; length?: number } = {}): Promise<Readable> {
    opened.push({ name: uri.split('/').slice(-3).join('/'), bytes: range.length ?? Number.NaN });
    beforeOpen(uri);
    return super.open(uri, range);
  }
}

function storeOf(answer: ClusterAnswer = 'forgotten'): HistoryStore {
  const storage = new WatchedStorage();
  return {
    storage,
    user: 'alice',
    root: fileUri(root),
    users: async () => ({ found: readdirSync(root), message: '' }),
    places: async (user) => {
      const ids = existsSync(join(root, user)) ? readdirSync(join(root, user)) : [];
      return {
        found: ids.map((jobId) => ({ jobId, user, folder: fileUri(join(root, user, jobId)) })),
        message: '',
      };
    },
    place: async () => null,
    answers: async (places) => new Map(places.map(({ folder }) => [folder, answer])),
    masters: async () => [],
    mayRead: () => false,
    log: async () => null,
    keepMs: 0,
    cacheMaxAgeMs: null,
    limits: '',
    close: () => storage.close(),
  };
}

const idOf = (number: number): string => `application_1000_${String(number).padStart(4, '0')}`;
const event = (name: string, at: number, detail = '', result?: string): string =>
  `${JSON.stringify({ at, type: name, message: detail, state: result })}\n`;

function leave(user: string, number: number, files: Readonly<Record<string, string>>): string {
  const folder = join(root, user, idOf(number));
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

function end(user: string, number: number, more: Partial<JobStatus> = {}): void {
  const status = jobStatus({ id: idOf(number), state: 'succeeded', finishedAt: 9, name: 'fine', ...more });
  leave(user, number, { 'final.json': JSON.stringify(status) });
}

const bytesOf = (user: string): number => opened.filter(({ name }) => name.startsWith(user)).reduce((sum, { bytes }) => sum + bytes, 0);

test("a user with many large histories does not push other users' jobs out of a list", async () => {
  const large = { 'job.json': JSON.stringify({ job: { name: 'x'.repeat(MiB) } }), 'events-1.jsonl': event('x', 1) };
  for (let number = 100; number < 200; number++) {
    leave('mallory', number, large);
  }
  for (const number of [1, 2, 3]) {
    end('alice', number);
  }
  const { jobs, message } = await new HistoryIndex(storeOf(), { limits: LIMITS }).list({ user: null, limit: 50 });
  const users = jobs.map(({ place }) => place.user);
  expect(users.filter((user) => user === 'alice')).toHaveLength(3);
  expect(users.filter((user) => user === 'mallory')).toHaveLength(3);
  expect(message).toBe('Some histories are omitted because reading them takes too long: 97 of mallory.');
  expect(bytesOf('mallory')).toBeLessThan(LIMITS.userBytes);
  expect(JSON.stringify(jobs).length).toBeLessThan(20_000);
});

test("a user with many new-looking folders does not push other users' jobs out of a list", async () => {
  for (let number = 1000; number < 1060; number++) {
    leave('mallory', number, {});
  }
  for (const number of [1, 2, 3]) {
    end('alice', number);
  }
  const { jobs } = await new HistoryIndex(storeOf(), { limits: LIMITS }).list({ user: null, limit: 20 });
  const users = jobs.map(({ place }) => place.user);
  expect(users).toEqual([...Array.from({ length: 17 }, () => 'mallory'), 'alice', 'alice', 'alice']);
  const ids = jobs.map(({ place }) => place.jobId);
  expect(ids).toEqual([...ids].sort().reverse());
  expect((await new HistoryIndex(storeOf(), { limits: LIMITS }).list({ user: 'mallory', limit: 20 })).jobs).toHaveLength(20);
});

test('a list says that states may be old if the cluster does not answer, unless all jobs have a recorded end', async () => {
  end('alice', 1);
  const list = async () => new HistoryIndex(storeOf('silent')).list({ user: null, limit: 50 });
  expect((await list()).message).toBe('');
  leave('alice', 2, { 'events-1.jsonl': event('program-started', 1) });
  expect(await list()).toMatchObject({
    jobs: [{ status: { state: 'running' } }, { status: { state: 'succeeded' } }],
    message: 'The cluster does not answer, so jobs without a recorded end are shown in the last state that they recorded.',
  });
});

test("large damaged final.json files count only against their owner's share", async () => {
  for (let number = 100; number < 120; number++) {
    leave('mallory', number, { 'final.json': `{${'x'.repeat(MiB)}` });
  }
  end('alice', 1);
  const index = new HistoryIndex(storeOf(), { limits: LIMITS });
  expect((await index.list({ user: null, limit: 50 })).jobs.map(({ place }) => place.user)).toEqual([...Array(3).fill('mallory'), 'alice']);
  // The second list contains more jobs, because the outlines of the first list are cached.
  expect((await index.list({ user: null, limit: 50 })).jobs).toHaveLength(7);
});

test('for a job without final.json, a list reads only job.json and the end of its newest events', async () => {
  const lines = Array.from({ length: 50_000 }, (_, at) => event('notice', at, 'x'.repeat(100))).join('');
  leave('alice', 1, {
    'job.json': JSON.stringify({ version: 99, submittedAt: 5, job: { name: 'mnist', queue: 'gpu' }, checkpointDir: 'hdfs:///c' }),
    'events-1.jsonl': event('program-started', 6),
    'events-2.jsonl': lines + event('job-finished', 70_000, 'out of memory', 'failed'),
    'metrics-1.jsonl': 'x'.repeat(MiB),
  });
  leave('alice', 2, { 'events-1.jsonl': event('program-started', 7) });
  leave('alice', 3, { 'events-1.jsonl': event('master-registered', 8) });
  leave('alice', 4, { 'events-1.jsonl': event('program-started', 8) + lines });
  const list = async (answer: ClusterAnswer) => (await new HistoryIndex(storeOf(answer)).list({ user: 'alice', limit: 9 })).jobs;
  const [, , , first] = await list('forgotten');
  expect(first?.status).toMatchObject({
    name: 'mnist',
    queue: 'gpu',
    startedAt: 5,
    finishedAt: 70_000,
    state: 'failed',
    message: 'out of memory',
    masterAttempt: 2,
    checkpointUri: 'hdfs:///c',
    notices: [],
    tasks: [],
  });
  expect(bytesOf('alice')).toBeLessThan(2 * (130 << 10));
  const runs: ClusterAnswer = { name: 'n', queue: 'q', startedAt: 3, finishedAt: null, result: null };
  expect((await list(runs)).map(({ status }) => status.state)).toEqual(['running', 'starting', 'running', 'running']);
});

test('a list reads only files that have changed', async () => {
  const folder = leave('alice', 1, { 'job.json': '{"job":{"name":"a"}}', 'events-1.jsonl': event('master-registered', 1) });
  end('alice', 2);
  const index = new HistoryIndex(storeOf());
  const names = async () => (await index.list({ user: 'alice', limit: 9 })).jobs.map(({ status }) => `${status.name} ${status.state}`);
  expect(await names()).toEqual(['fine succeeded', 'a failed']);
  expect(opened.splice(0)).toHaveLength(3);
  expect(await names()).toEqual(['fine succeeded', 'a failed']);
  expect(opened).toEqual([]);
  writeFileSync(join(folder, 'job.json'), '{"job":{"name":"b"}}');
  utimesSync(join(folder, 'job.json'), 50, 50);
  expect(await names()).toEqual(['fine succeeded', 'b failed']);
  end('alice', 1, { name: 'c' });
  expect(await names()).toEqual(['fine succeeded', 'c succeeded']);
});

test('a list keeps its time limit, even if access checks are slow', async () => {
  let now = 0;
  beforeOpen = (uri) => {
    now += uri.includes('/mallory/') ? 1_000 : 10;
  };
  for (let number = 100; number < 200; number++) {
    end('mallory', number);
  }
  for (const number of [1, 2, 3]) {
    end('alice', number);
  }
  const index = new HistoryIndex(storeOf(), { limits: LIMITS, now: () => now });
  const { jobs, message } = await index.list({ user: null, limit: 200 });
  expect(jobs.filter(({ place }) => place.user === 'alice')).toHaveLength(3);
  expect(message).toContain('84 of mallory.');
  const mayView = async (): Promise<boolean> => {
    now += 3_000;
    return false;
  };
  const begun = now;
  expect((await index.list({ user: null, limit: 200, mayView })).jobs).toEqual([]);
  expect(now - begun).toBeLessThan(40_000);
});

test('an unreadable file does not hide other jobs', async () => {
  end('mallory', 2);
  end('alice', 1);
  beforeOpen = (uri) => {
    if (uri.includes('/mallory/')) {
      throw new TonyError('HDFS_UNREACHABLE', 'no DataNode has its blocks.');
    }
  };
  const { jobs, message } = await new HistoryIndex(storeOf()).list({ user: null, limit: 9 });
  expect(jobs.map(({ place }) => place.user)).toEqual(['alice']);
  expect(message).toBe(`${idOf(2)} of mallory cannot be read: no DataNode has its blocks.`);
});

test('a list fails when the storage is unreachable', async () => {
  end('alice', 1);
  const store = storeOf();
  store.storage.list = async () => {
    throw new TonyError('HDFS_UNREACHABLE', 'no NameNode answers.');
  };
  await expect(new HistoryIndex(store).list({ user: null, limit: 9 })).rejects.toMatchObject({ code: 'HDFS_UNREACHABLE' });
});
