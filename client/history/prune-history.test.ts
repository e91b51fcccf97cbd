import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { ClusterAnswer } from '../records/stored-status.ts';
import { LocalHistory } from './local-history.ts';
import { type Pruned, type PruneOptions, pruneHistory } from './prune-history.ts';

const DAY_MS = 86_400_000;
const NOW = 1_000 * DAY_MS;
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'tony-ts-prune-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function leave(id: string, ageDays: number, files: readonly string[] = ['final.json']): string {
  const folder = join(root, 'history', id);
  const at = (NOW - ageDays * DAY_MS) / 1000;
  for (const file of files) {
    mkdirSync(join(folder, file, '..'), { recursive: true });
    writeFileSync(join(folder, file), 'x'.repeat(100));
    utimesSync(join(folder, file), at, at);
    utimesSync(join(folder, file, '..'), at, at);
  }
  if (existsSync(join(folder, 'summaries'))) {
    utimesSync(join(folder, 'summaries'), at, at);
  }
  utimesSync(folder, at, at);
  return folder;
}

async function prune(store: HistoryStore, options: Partial<PruneOptions> = {}): Promise<Pruned[]> {
  const found: Pruned[] = [];
  const whole = { user: 'alice', olderThanMs: 90 * DAY_MS, dryRun: false, now: NOW, ...options };
  for await (const each of pruneHistory(store, whole)) {
    found.push(each);
  }
  return found;
}

function saying(answer: ClusterAnswer): HistoryStore {
  const store = new LocalHistory(root, 'alice');
  store.answers = async (places) => new Map(places.map(({ folder }) => [folder, answer]));
  return store;
}

test('a prune removes histories older than the limit, oldest first, and reports their sizes', async () => {
  leave('local_2_0001', 91);
  const old = leave('local_1_0001', 95, ['final.json', 'summaries/train/events.1', 'summaries/test/events.1']);
  const young = leave('local_3_0001', 89);
  const dry = await prune(saying('forgotten'), { dryRun: true });
  expect(dry.map(({ place, bytes }) => [place.jobId, bytes])).toEqual([
    ['local_1_0001', 300],
    ['local_2_0001', 100],
  ]);
  expect(existsSync(old)).toBe(true);
  expect(await prune(saying('forgotten'))).toHaveLength(2);
  expect([existsSync(old), existsSync(young)]).toEqual([false, true]);
});

test('a prune keeps a history with recently written summaries', async () => {
  const folder = leave('local_1_0001', 95, ['final.json', 'summaries/train/events.1']);
  const recently = (NOW - DAY_MS) / 1000;
  utimesSync(join(folder, 'summaries', 'train', 'events.1'), recently, recently);
  expect(await prune(saying('forgotten'))).toEqual([]);
});

test('a prune removes a job without final.json only if the cluster reports that the job does not run', async () => {
  const folder = leave('local_1_0001', 95, ['job.json']);
  const word = { name: '', queue: '', startedAt: 0, finishedAt: null };
  expect(await prune(saying('silent'))).toEqual([]);
  expect(await prune(saying({ ...word, result: null }))).toEqual([]);
  expect(existsSync(folder)).toBe(true);
  expect(await prune(saying({ ...word, result: { state: 'killed', message: '' } }))).toHaveLength(1);
  leave('local_1_0001', 95, ['job.json']);
  expect(await prune(saying('forgotten'))).toHaveLength(1);
});

test('a prune reports a history that it cannot remove, and continues with the others', async () => {
  leave('local_1_0001', 95);
  leave('local_2_0001', 95);
  const store = saying('forgotten');
  store.storage.remove = async (uri) => {
    if (uri.endsWith('local_1_0001')) {
      throw new TonyError('ACCESS_DENIED', 'not yours');
    }
    return true;
  };
  expect((await prune(store)).map(({ failure }) => failure)).toEqual(['not yours', '']);
});

test('a prune keeps a history that it cannot list, and continues with the others', async () => {
  leave('local_1_0001', 95);
  leave('local_2_0001', 95);
  const store = saying('forgotten');
  const { list } = store.storage;
  store.storage.list = async (uri) => {
    if (uri.endsWith('local_1_0001')) {
      throw new TonyError('ACCESS_DENIED', 'not yours');
    }
    return await list.call(store.storage, uri);
  };
  expect((await prune(store)).map(({ place }) => place.jobId)).toEqual(['local_2_0001']);
});
