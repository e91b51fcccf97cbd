import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseSite } from '../../conf/resolve/site.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import type { Entry } from '../../storage/storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { historyFolders, historyPlace, historyUrl, openHistory, ownHistoryFolders, usableHistoryPlace } from './history-place.ts';

let folder: string;
const alice = { user: 'alice', home: 'hdfs://nn:8020/user/alice', root: 'hdfs://nn:8020/user/alice/.tony-ts' };
const NONE = parseSite('{}', 'x');
const SHARED = parseSite('history: {dir: "hdfs:///tony/history", url: "http://history:1"}', 'x');
const job = { user: 'alice', jobId: 'application_1_0001' };

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'history-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('histories are in the staging root, or in the folder that the site file sets', () => {
  expect(historyPlace(NONE, alice)).toEqual({ folder: `${alice.root}/history`, shared: false, url: null });
  expect(historyPlace(SHARED, alice)).toEqual({ folder: 'hdfs://nn:8020/tony/history/alice', shared: true, url: 'http://history:1' });
  expect(historyUrl('http://history:1', 'a b', 'application_1_0001')).toBe('http://history:1/jobs/a%20b/application_1_0001/');
});

test('finds histories from before a change of the site file, but not in folders of other users', () => {
  const own = `${alice.root}/history/application_1_0001`;
  expect(historyFolders(NONE, alice, job)).toEqual([own]);
  expect(historyFolders(SHARED, alice, job)).toEqual(['hdfs://nn:8020/tony/history/alice/application_1_0001', own]);
  expect(historyFolders(SHARED, { ...alice, user: 'bob' }, job)).toEqual(['hdfs://nn:8020/tony/history/alice/application_1_0001']);
  expect(historyFolders(NONE, { ...alice, user: 'bob' }, job)).toEqual([]);
});

test("openHistory creates a folder that the group can read, inside the user's own folder", async () => {
  const storage = new FileStorage();
  const me = (await storage.stat(fileUri(folder)))?.owner ?? '';
  const place = { folder: fileUri(join(folder, 'all', me)), shared: true, url: null };
  mkdirSync(join(folder, 'all'));
  await openHistory(storage, place, me, 'application_1_0001');
  await openHistory(storage, place, me, 'application_1_0002');
  expect(statSync(join(folder, 'all', me)).mode & 0o7777).toBe(0o750);
  expect(statSync(join(folder, 'all', me, 'application_1_0002')).mode & 0o7777).toBe(0o750);
  chmodSync(join(folder, 'all', me), 0o700);
  await expect(openHistory(storage, place, 'somebody', 'application_1_0001')).rejects.toMatchObject({ code: 'HISTORY_UNWRITABLE' });
});

/** Storage whose only existing folder is alice's folder in the shared folder. */
const ownedBy = (owner: string | null) => ({
  stat: async (uri: string) => (owner !== null && uri === 'hdfs://nn:8020/tony/history/alice' ? ({ owner } as Entry) : null),
});

test('if another user has created the folder, histories are in the staging root, and a note names the folder, its owner and the next step', async () => {
  const shared = historyPlace(SHARED, alice);
  expect(await usableHistoryPlace(ownedBy('alice'), SHARED, alice)).toEqual({ place: shared, notes: [] });
  expect(await usableHistoryPlace(ownedBy(null), SHARED, alice)).toEqual({ place: shared, notes: [] });
  const { place, notes } = await usableHistoryPlace(ownedBy('bob'), SHARED, alice);
  expect(place).toEqual(historyPlace(NONE, alice));
  expect(notes).toEqual([expect.stringMatching(/^hdfs:.*alice belongs to bob, so .*hdfs dfs -chown alice hdfs:/)]);
});

test('readers skip a folder that another user has created, which may contain forged histories', async () => {
  const [shared, own] = historyFolders(SHARED, alice, job);
  expect(await ownHistoryFolders(ownedBy('alice'), SHARED, alice, job)).toEqual([shared, own]);
  expect(await ownHistoryFolders(ownedBy('bob'), SHARED, alice, job)).toEqual([own]);
  expect(await ownHistoryFolders(ownedBy('bob'), SHARED, { ...alice, user: 'carol' }, job)).toEqual([]);
  expect(await ownHistoryFolders(ownedBy('bob'), NONE, alice, job)).toEqual([own]);
});
