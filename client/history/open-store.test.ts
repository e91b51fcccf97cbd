import { expect, test } from 'vitest';
import { FileStorage } from '../../storage/file-storage.ts';
import { findPlace } from '../records/find-place.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { JobPlace } from '../records/job-place.ts';
import type { ClusterAnswer } from '../records/stored-status.ts';

const ID = 'application_1795225023264_0001';
const KNOWN: ClusterAnswer = { name: 'mnist', queue: 'default', startedAt: 1, finishedAt: 2, result: { state: 'failed', message: '' } };

const place = (user: string): JobPlace => ({ jobId: ID, user, folder: `hdfs://nn/history/${user}/${ID}` });

/**
 * A store with histories of the same application in the folders of `users`. YARN reports `owner` as the application's user, or has no
 * record of the application.
 */
function storeOf(users: readonly string[], owner: string | null): HistoryStore {
  const storage = new FileStorage();
  return {
    storage,
    user: 'viewer',
    root: 'hdfs://nn/user/viewer/.tony-ts',
    users: async () => ({ found: [...users, 'viewer'], message: '' }),
    places: async () => ({ found: [], message: '' }),
    place: async (user) => (users.includes(user) ? place(user) : null),
    answers: async (places) => new Map(places.map(({ folder, user }) => [folder, user === owner ? KNOWN : 'forgotten'])),
    masters: async () => [],
    mayRead: () => false,
    log: async () => null,
    keepMs: 0,
    cacheMaxAgeMs: null,
    limits: '',
    close: () => storage.close(),
  };
}

test('findPlace finds the history of the user whom YARN reports for the application', async () => {
  expect(await findPlace(storeOf(['alice'], null), ID)).toEqual(place('alice'));
  expect(await findPlace(storeOf(['aaron', 'alice', 'mallory'], 'alice'), ID)).toEqual(place('alice'));
});

test('findPlace rejects an ID with several histories if YARN does not know the application and no user is given', async () => {
  const store = storeOf(['aaron', 'alice'], null);
  await expect(findPlace(store, ID)).rejects.toMatchObject({
    code: 'HISTORY_NOT_FOUND',
    message: expect.stringContaining('aaron, alice'),
    hint: expect.stringContaining('--user'),
  });
  expect(await findPlace(store, ID, 'alice')).toEqual(place('alice'));
});
