import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LocalHistory } from '../history/local-history.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { ClusterAnswer } from '../records/stored-status.ts';
import { asideName, type CachedFolder } from './cached-folders.ts';
import { isDue, listCache, type PruneCacheOptions, pruneCache } from './prune-cache.ts';

const DAY_MS = 86_400_000;
const NOW = 1_000 * DAY_MS;
const ANY_TIME = { olderThanMs: 0 };
const [A, B] = ['a'.repeat(64), 'b'.repeat(64)] as const;
const RUNS: ClusterAnswer = { name: '', queue: '', startedAt: 0, finishedAt: null, result: null };
const KILLED: ClusterAnswer = { ...RUNS, result: { state: 'killed', message: '' } };
let root: string;

beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'tony-ts-cache-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function leave(file: string, text: string, ageDays: number): string {
  const whole = path.join(root, file);
  mkdirSync(path.dirname(whole), { recursive: true });
  writeFileSync(whole, text);
  for (const each of [whole, path.dirname(whole)]) {
    utimesSync(each, (NOW - ageDays * DAY_MS) / 1000, (NOW - ageDays * DAY_MS) / 1000);
  }
  return whole;
}

function jobText(hash: string, ageDays: number): string {
  return JSON.stringify({ submittedAt: NOW - ageDays * DAY_MS, job: { name: 'mnist' }, cacheEntries: [hash] });
}

function saying(answer: ClusterAnswer): HistoryStore {
  const store = new LocalHistory(root, 'alice');
  store.answers = async (places) => new Map(places.map(({ folder }) => [folder, answer]));
  return store;
}

async function pruned(store: HistoryStore, options: Partial<PruneCacheOptions> = {}): Promise<string[]> {
  const found: string[] = [];
  for await (const { entry, failure } of pruneCache(store, { olderThanMs: 30 * DAY_MS, dryRun: false, now: NOW, ...options })) {
    expect(failure).toBe('');
    found.push(`${entry.contents.map(({ kind, name }) => `${kind} ${name}`).join()} ${entry.hash[0]}`);
  }
  return found;
}

const cached = (): string[] => readdirSync(path.join(root, 'cache')).sort();

describe('a prune removes an entry only if', () => {
  const folder: CachedFolder = {
    hash: A,
    uri: '',
    contents: [{ kind: 'source', name: 'source' }],
    bytes: 1,
    writtenAt: 0,
    unfinishedSince: 0,
  };
  const unused = { usedBy: [], lastUse: null };
  const usedAt = (createdAt: number) => ({ usedBy: [], lastUse: { id: 'local_1_0001', name: '', createdAt } });
  const due = (change: Partial<CachedFolder>, use: Parameters<typeof isDue>[1] = unused): boolean =>
    isDue({ ...folder, ...change }, use, { olderThanMs: 30 * DAY_MS, now: NOW });

  test('the entry was last written longer ago than the limit', () => {
    expect([due({ writtenAt: NOW - 30 * DAY_MS }), due({ writtenAt: NOW - 31 * DAY_MS })]).toEqual([false, true]);
  });

  test('every job that used it was submitted longer ago than the limit', () => {
    expect([due({}, usedAt(NOW - 30 * DAY_MS)), due({}, usedAt(NOW - 31 * DAY_MS))]).toEqual([false, true]);
  });

  test('no job that may still be running uses it, however old that job is', () => {
    expect(due({}, { ...usedAt(0), usedBy: ['local_1_0001'] })).toBe(false);
  });

  test('its unfinished files are more than a day old', () => {
    const contents = [{ kind: 'unfinished', name: 'source' }] as const;
    expect(due({ contents, unfinishedSince: NOW - DAY_MS })).toBe(false);
    expect(due({ contents, unfinishedSince: NOW - DAY_MS - 1, writtenAt: NOW - DAY_MS - 1 })).toBe(true);
    expect(due({ unfinishedSince: NOW - DAY_MS })).toBe(false);
  });
});

test('a prune removes entries that were unused for longer than the limit, oldest first; a dry run only lists them', async () => {
  leave(`cache/${A}/source/train.ts`, 'old', 40);
  leave(`cache/${B}/tony/main.mjs`, 'older', 50);
  leave(`cache/${'c'.repeat(64)}/numbers/0.bin`, 'young', 20);
  leave('cache/of-somebody-else/file', 'old', 400);
  const store = saying('forgotten');
  expect(await pruned(store, { dryRun: true })).toEqual(['bundles tony b', 'source source a']);
  expect(cached()).toHaveLength(4);
  expect(await pruned(store)).toEqual(['bundles tony b', 'source source a']);
  expect(cached()).toEqual(['c'.repeat(64), 'of-somebody-else']);
  expect(await pruned(store, ANY_TIME)).toEqual(['data numbers c']);
});

test('a list shows the content, the size and the last job of each entry', async () => {
  leave(`cache/${A}/source/train.ts`, 'x'.repeat(100), 40);
  symlinkSync('.', path.join(root, 'cache', A, 'source', 'loop'));
  leave(`cache/${B}/source/train.ts`, 'x', 50);
  leave('history/local_1_0001/job.json', jobText(A, 20), 20);
  leave('history/local_1_0001/final.json', '{}', 20);
  leave('history/local_2_0001/job.json', jobText(A, 10), 10);
  const { entries, message } = await listCache(saying(RUNS), { now: NOW });
  expect(message).toBe('');
  expect(entries).toMatchObject([
    {
      hash: A,
      contents: [{ kind: 'source', name: 'source' }],
      lastUse: { id: 'local_2_0001', name: 'mnist', createdAt: NOW - 10 * DAY_MS },
      usedBy: ['local_2_0001'],
    },
    { hash: B, bytes: 1, usedBy: [], lastUse: null },
  ]);
  // The size includes the link itself, but not its target.
  expect(entries[0]?.bytes).toBeLessThan(110);
});

describe('a prune keeps the entries that a job uses', () => {
  beforeEach(() => void leave(`cache/${A}/source/train.ts`, 'code', 400));

  test('while the job may still be running', async () => {
    leave('jobs/local_1_0001/job.json', jobText(A, 300), 300);
    for (const answer of [RUNS, 'silent'] as const) {
      expect(await pruned(saying(answer))).toEqual([]);
    }
    expect(await pruned(saying(KILLED))).toEqual(['source source a']);
  });

  test('while its submission may not have reached the cluster yet', async () => {
    leave('jobs/local_1_0001/job.json', jobText(A, 1), 0.01);
    expect(await pruned(saying('forgotten'), ANY_TIME)).toEqual([]);
    leave('jobs/local_1_0001/job.json', jobText(A, 1), 1);
    expect(await pruned(saying('forgotten'), ANY_TIME)).toEqual(['source source a']);
  });

  test('until YARN reports that the job has ended, even if the job is new', async () => {
    leave('jobs/application_1_0001/job.json', jobText(A, 1), 0);
    expect(await pruned(saying(RUNS), ANY_TIME)).toEqual([]);
    expect(await pruned(saying(KILLED), ANY_TIME)).toEqual(['source source a']);
  });

  test('while its history is younger than the limit', async () => {
    leave('history/local_1_0001/job.json', jobText(A, 20), 20);
    leave('history/local_1_0001/final.json', '{}', 20);
    expect(await pruned(saying('forgotten'))).toEqual([]);
    expect(await pruned(saying('forgotten'), { olderThanMs: 19 * DAY_MS })).toEqual(['source source a']);
  });

  test('with their modification times, when a submission references the entry while it is being removed', async () => {
    const store = saying('forgotten');
    const { storage } = store;
    const file = path.join(root, 'cache', A, 'source', 'train.ts');
    const before = statSync(file).mtimeMs;
    const { rename } = storage;
    storage.rename = async (from, to) => {
      const renamed = await rename.call(storage, from, to);
      if (!existsSync(path.join(root, 'jobs'))) {
        leave('jobs/local_1_0001/job.json', jobText(A, 0), 0);
      }
      return renamed;
    };
    expect(await pruned(store)).toEqual([]);
    expect([cached(), statSync(file).mtimeMs]).toEqual([[A], before]);
  });

  test('when another submission starts to upload the same content while the entry is being removed', async () => {
    const store = saying('forgotten');
    const { storage } = store;
    const { rename } = storage;
    storage.rename = async (from, to) => {
      const renamed = await rename.call(storage, from, to);
      if (!existsSync(path.join(root, 'jobs'))) {
        leave('jobs/local_1_0001/job.json', jobText(A, 0), 0);
        mkdirSync(path.join(root, 'cache', A));
        writeFileSync(path.join(root, 'cache', A, '.source.0123456789abcdef.writing'), 'par');
      }
      return renamed;
    };
    expect(await pruned(store)).toEqual([]);
    expect(readFileSync(path.join(root, 'cache', A, 'source', 'train.ts'), 'utf8')).toBe('code');
    expect(cached()).toEqual([A]);
  });
});

describe('a job.json that cannot be read', () => {
  beforeEach(() => void leave(`cache/${B}/source/train.ts`, 'code', 400));
  const refusal = (file: string) => ({ code: 'JOB_UNREADABLE', message: expect.stringContaining(`${file}/job.json cannot be read`) });

  test('stops a prune while its job may run', async () => {
    leave('jobs/local_1_0001/job.json', jobText(A, 300).slice(0, -5), 300);
    await expect(pruned(saying(RUNS))).rejects.toMatchObject(refusal('jobs/local_1_0001'));
    expect((await listCache(saying(RUNS), { now: NOW })).message).toContain('jobs/local_1_0001/job.json cannot be read');
    expect(cached()).toEqual([B]);
    expect(await pruned(saying(KILLED))).toEqual(['source source b']);
  });

  test('stops a prune when it appears during a removal, and the prune restores the entry', async () => {
    const store = saying('forgotten');
    const { rename } = store.storage;
    store.storage.rename = async (from, to) => {
      if (!existsSync(path.join(root, 'jobs'))) {
        leave('jobs/local_1_0001/job.json', '{', 0);
      }
      return await rename.call(store.storage, from, to);
    };
    await expect(pruned(store)).rejects.toMatchObject(refusal('jobs/local_1_0001'));
    expect(cached()).toEqual([B]);
  });

  test('in a history stops a prune only while the job may run and no other copy of its job.json is readable', async () => {
    leave('history/local_1_0001/job.json', '{', 300);
    await expect(pruned(saying('silent'))).rejects.toMatchObject(refusal('history/local_1_0001'));
    leave('jobs/local_1_0001/job.json', jobText(A, 300), 300);
    expect(await pruned(saying('silent'))).toEqual(['source source b']);
    leave(`cache/${B}/source/train.ts`, 'code', 400);
    rmSync(path.join(root, 'jobs'), { recursive: true });
    leave('history/local_1_0001/final.json', '{}', 300);
    expect(await pruned(saying('silent'))).toEqual(['source source b']);
  });

  test('stops a prune, as does an incomplete list of histories', async () => {
    const store = saying('forgotten');
    store.places = async () => ({ found: [], message: 'The newest histories may be missing.' });
    const message =
      'The newest histories may be missing. tony-ts therefore cannot determine which files are in use, and has stopped removing files.';
    await expect(pruned(store)).rejects.toMatchObject({ code: 'JOB_UNREADABLE', message });
  });
});

test('a prune removes interrupted uploads, copies and set-aside entries after a day', async () => {
  leave(`cache/${A}/source/train.ts`, 'code', 2);
  const temporary = '.source-12.tar.gz.0123456789abcdef.writing';
  const old = [leave(`cache/${A}/${temporary}`, 'par', 2), leave(`cache/${A}/.copy-a1b2c3/train.ts`, 'par', 2)];
  leave(`cache/${B}/${temporary}`, 'par', 2);
  const aside = asideName('c'.repeat(64), NOW - 2 * DAY_MS);
  leave(`cache/${aside}/source/train.ts`, 'code', 400);
  const young = asideName('d'.repeat(64), NOW - 1000);
  leave(`cache/${young}/source/train.ts`, 'code', 400);
  const kept = leave(`cache/${'e'.repeat(64)}/${temporary}`, 'par', 0.5);
  const gone = await pruned(saying('forgotten'));
  expect(gone.sort()).toEqual(['unfinished  c', 'unfinished .copy-a1b2c3 a', 'unfinished source a', 'unfinished source b']);
  expect([...old.map(existsSync), existsSync(kept)]).toEqual([false, false, true]);
  expect(cached()).toEqual([young, A, 'e'.repeat(64)].sort());
});

test('a prune restores the name of an entry that it cannot remove, reports it, and continues with the others', async () => {
  leave(`cache/${A}/source/train.ts`, 'code', 400);
  leave(`cache/${B}/source/train.ts`, 'code', 300);
  const store = saying('forgotten');
  const { remove } = store.storage;
  store.storage.remove = async (uri) => {
    if (uri.includes(A)) {
      throw new Error('not yours');
    }
    return await remove.call(store.storage, uri);
  };
  const failures: string[] = [];
  for await (const { failure } of pruneCache(store, { olderThanMs: DAY_MS, dryRun: false, now: NOW })) {
    failures.push(failure);
  }
  expect(failures).toEqual(['not yours', '']);
  expect(cached()).toEqual([A]);
});
