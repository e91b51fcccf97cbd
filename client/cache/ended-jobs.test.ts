import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { LocalHistory } from '../history/local-history.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { ClusterAnswer } from '../records/stored-status.ts';
import { MOST_ENDED, removeEndedJobs } from './ended-jobs.ts';

const RUNS: ClusterAnswer = { name: '', queue: '', startedAt: 0, finishedAt: null, result: null };
const KILLED: ClusterAnswer = { ...RUNS, result: { state: 'killed', message: 'Killed by admin.' } };
const id = (at: number) => `application_1700000000000_${String(at).padStart(4, '0')}`;
let root: string;
let requests: number[];

beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'tony-ts-ended-'));
  requests = [];
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
});

function stage(name: string, at: number): void {
  const folder = path.join(root, 'jobs', name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'am.json'), '{}');
  utimesSync(folder, 1_000_000 + at, 1_000_000 + at);
}

function saying(answerTo: (jobId: string) => ClusterAnswer | undefined): HistoryStore {
  const store: HistoryStore = new LocalHistory(root, 'alice');
  store.answers = async (places) => {
    requests.push(places.length);
    return new Map(
      places.flatMap(({ folder, jobId }) => {
        const answer = answerTo(jobId);
        return answer === undefined ? [] : [[folder, answer] as const];
      }),
    );
  };
  return store;
}

const staged = (): string[] => readdirSync(path.join(root, 'jobs')).sort();

test('removes the folders of ended jobs, and keeps those of jobs that run or that YARN does not know', async () => {
  const answers: Readonly<Record<string, ClusterAnswer>> = {
    [id(1)]: KILLED,
    [id(2)]: RUNS,
    [id(3)]: 'forgotten',
    [id(4)]: 'silent',
    [id(5)]: KILLED,
  };
  for (let at = 1; at <= 6; at++) {
    stage(id(at), at);
  }
  stage('local_1700000000000_0001', 0);
  stage('notes', 0);
  expect(
    await removeEndedJobs(
      saying((each) => answers[each]),
      MOST_ENDED.prune,
    ),
  ).toEqual([id(1), id(5)]);
  expect(staged()).toEqual([id(2), id(3), id(4), id(6), 'local_1700000000000_0001', 'notes']);
  expect(requests).toEqual([6]);
});

test('a submission asks about few folders, the oldest ones, and requests them individually', async () => {
  for (let at = 1; at <= 40; at++) {
    stage(id(at), at);
  }
  await removeEndedJobs(
    saying(() => KILLED),
    MOST_ENDED.submission,
  );
  expect(staged()).toEqual(Array.from({ length: 28 }, (_, at) => id(at + 13)));
  expect(requests).toEqual([3, 3, 3, 3]);
});

test('without staged jobs, asks nothing', async () => {
  expect(
    await removeEndedJobs(
      saying(() => KILLED),
      MOST_ENDED.prune,
    ),
  ).toEqual([]);
  expect(requests).toEqual([]);
});
