import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { expect, it, type Mock, onTestFinished, vi } from 'vitest';
import type { JobStatus } from '../../conf/status/status.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { asGeneration, asRevision } from '../job/state/counters.ts';
import type { Snapshot } from '../job/state/snapshot-format.ts';
import { JobFiles } from './job-files.ts';

const storage = new FileStorage();

function newFolders(): { folder: string; gone: Mock<() => void>; of: (attempt: number) => JobFiles } {
  const folder = mkdtempSync(path.join(tmpdir(), 'tony-job-files-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const places = { staging: fileUri(path.join(folder, 'staging')), history: fileUri(path.join(folder, 'history')) };
  mkdirSync(path.join(folder, 'staging'));
  const gone = vi.fn();
  return { folder, gone, of: (attempt) => new JobFiles({ storage, ...places, attempt, gone, log: pino({ level: 'silent' }) }) };
}

const snapshot = (revision: number): Snapshot => ({
  version: 1,
  revision: asRevision(revision),
  generation: asGeneration(revision),
  startedAt: 1,
  tasks: [],
  ending: [],
  roleEnds: {},
  firstFailure: null,
  fruitless: 0,
  metrics: {},
  earlyEnd: null,
  notices: [],
  result: null,
  decisiveTask: null,
});

function persist(files: JobFiles, ...snapshots: Snapshot[]): Promise<(Snapshot | { superseded: number })[]> {
  const outcomes: (Snapshot | { superseded: number })[] = [];
  return new Promise((resolve) => {
    for (const each of snapshots) {
      const done = (what: Snapshot | { superseded: number }): void => {
        outcomes.push(what);
        if ('superseded' in what || what.revision === snapshots.at(-1)?.revision) {
          resolve(outcomes);
        }
      };
      files.persist(each, done, (superseded) => done({ superseded }));
    }
  });
}

const final = (message: string): JobStatus => ({ state: 'failed', message }) as unknown as JobStatus;

it('writes the newest state, and passes it to the next attempt', async () => {
  const { of } = newFolders();
  const outcomes = await persist(of(1), snapshot(1), snapshot(2), snapshot(3));
  expect(outcomes).toEqual([snapshot(1), snapshot(3)]);
  expect(await of(2).recover()).toMatchObject({ final: null, snapshot: { revision: 3 } });
  expect(await of(3).recover()).toMatchObject({ snapshot: { revision: 3 } });
  expect(await of(1).recover()).toEqual({ final: null, snapshot: null });
});

it('ignores a state that cannot be read', async () => {
  const { of, folder } = newFolders();
  await persist(of(1), snapshot(1));
  await persist(of(2), snapshot(2));
  writeFileSync(path.join(folder, 'staging', 'state-2.json'), '{"version":');
  expect(await of(3).recover()).toMatchObject({ snapshot: { revision: 1 } });
});

it('reports that a newer attempt has taken over, before the older attempt acts on its state', async () => {
  const { of } = newFolders();
  const first = of(1);
  await first.writeAddress({ attempt: 1 });
  expect(await persist(first, snapshot(1))).toEqual([snapshot(1)]);
  await of(2).writeAddress({ attempt: 2 });
  expect(await persist(first, snapshot(2))).toEqual([{ superseded: 2 }]);
});

it('keeps the final status that was written first', async () => {
  const { of } = newFolders();
  expect(await of(2).writeFinal(final('second'), 1000)).toEqual({ status: final('second'), written: true });
  expect(await of(1).writeFinal(final('first'), 1000)).toEqual({ status: final('second'), written: true });
  expect(await of(3).recover()).toMatchObject({ final: { message: 'second' } });
});

it('gives up writing the final status after its timeout when storage is unreachable', async () => {
  const { of, folder } = newFolders();
  writeFileSync(path.join(folder, 'history'), '');
  expect(await of(1).writeFinal(final('late'), 300)).toEqual({ status: final('late'), written: false });
});

it('keeps all events in order, and removes the files that only a running job needs', async () => {
  const { of, folder } = newFolders();
  const files = of(1);
  await files.writeFrozenJob('{}');
  await files.writeAddress({ attempt: 1 });
  await persist(files, snapshot(1));
  for (let at = 0; at < 100; at++) {
    files.record({ at, type: 'e' });
  }
  await files.close();
  const lines = readFileSync(path.join(folder, 'history', 'events-1.jsonl'), 'utf8')
    .trim()
    .split('\n');
  expect(lines.map((line) => (JSON.parse(line) as { at: number }).at)).toEqual(Array.from({ length: 100 }, (_, at) => at));
  await files.removeStaging(false);
  expect(readdirSync(path.join(folder, 'staging'))).toEqual([]);
  await files.removeStaging(true);
  expect(readdirSync(folder)).toEqual(['history']);
});

it('retries writing its address', async () => {
  const { of, folder, gone } = newFolders();
  mkdirSync(path.join(folder, 'staging', 'am.json'));
  const files = of(1);
  const written = files.writeAddress({ attempt: 1 });
  setTimeout(() => rmdirSync(path.join(folder, 'staging', 'am.json')), 100);
  await written;
  expect(readFileSync(path.join(folder, 'staging', 'am.json'), 'utf8')).toBe('{"attempt":1}');
  expect(gone).not.toHaveBeenCalled();
});

it('does not recreate a removed staging folder, and reports that it is missing', async () => {
  const { of, folder, gone } = newFolders();
  rmdirSync(path.join(folder, 'staging'));
  const uses = [
    (files: JobFiles) => files.writeAddress({ attempt: 1 }),
    (files: JobFiles) => files.writeFeedAddress({ host: 'a', port: 1, attempt: 1, token: 't', certificate: 'c', doors: [] }),
    async (files: JobFiles) => files.persist(snapshot(1), vi.fn(), vi.fn()),
    (files: JobFiles) => files.staged('job.json').catch(() => {}),
  ];
  for (const use of uses) {
    const files = of(1);
    const used = use(files);
    await expect.poll(() => gone).toHaveBeenCalled();
    await files.close();
    await used;
    gone.mockClear();
  }
  expect(readdirSync(folder)).toEqual([]);
});

it('does not overwrite the feed address of a newer attempt', async () => {
  const { of, folder } = newFolders();
  const address = (attempt: number) => ({ host: 'a', port: attempt, attempt, token: 't', certificate: 'c', doors: [] });
  const written = () => JSON.parse(readFileSync(path.join(folder, 'staging', 'feed.json'), 'utf8')) as unknown;
  await of(1).writeFeedAddress(address(1));
  expect(written()).toEqual(address(1));
  await of(2).writeAddress({ attempt: 2 });
  await of(2).writeFeedAddress(address(2));
  await of(1).writeFeedAddress(address(1));
  expect(written()).toEqual(address(2));
});
