import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { LocalHistory } from '../history/local-history.ts';
import type { HistoryStore } from '../records/history-store.ts';
import { pruneDaily } from './prune-daily.ts';

const DAY_MS = 86_400_000;
const [OLD, USED, YOUNG] = ['a'.repeat(64), 'b'.repeat(64), 'c'.repeat(64)] as const;
let root: string;

beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'tony-ts-daily-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
});

function storeWith(cacheMaxAgeMs: number | null): HistoryStore {
  const store: HistoryStore = new LocalHistory(root, 'alice');
  store.answers = async (places) =>
    new Map(places.map(({ folder }) => [folder, { name: '', queue: '', startedAt: 0, finishedAt: null, result: null }]));
  return Object.defineProperty(store, 'cacheMaxAgeMs', { value: cacheMaxAgeMs });
}

function leave(hash: string, ageDays: number): void {
  const file = path.join(root, 'cache', hash, 'source', 'train.ts');
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, 'x');
  const time = (Date.now() - ageDays * DAY_MS) / 1000;
  utimesSync(file, time, time);
}

const cached = (): string[] => readdirSync(path.join(root, 'cache')).sort();

test('removes old entries once a day, but not those of a submitted job', async () => {
  leave(OLD, 40);
  leave(USED, 40);
  leave(YOUNG, 10);
  const job = path.join(root, 'jobs', 'application_1_0001');
  mkdirSync(job, { recursive: true });
  writeFileSync(path.join(job, 'job.json'), JSON.stringify({ submittedAt: Date.now() - 60 * DAY_MS, job: {}, cacheEntries: [USED] }));
  const store = storeWith(30 * DAY_MS);
  await pruneDaily(store, Date.now());
  expect(cached()).toEqual([USED, YOUNG]);
  leave(OLD, 40);
  await pruneDaily(store, Date.now() + DAY_MS / 2);
  expect(cached()).toEqual([OLD, USED, YOUNG]);
  await pruneDaily(store, Date.now() + 1.1 * DAY_MS);
  expect(cached()).toEqual([USED, YOUNG]);
});

test('without an age limit, removes nothing and writes nothing', async () => {
  leave(OLD, 400);
  await pruneDaily(storeWith(null), Date.now());
  expect(cached()).toEqual([OLD]);
  expect(existsSync(path.join(root, 'cache-pruned'))).toBe(false);
});
