import { expect, test } from 'vitest';
import type { Entry } from '../../storage/storage.ts';
import { homesVerdict } from './verdicts.ts';

const PARENT = 'hdfs://nn/user';

const verdict = (users: readonly string[], homes: readonly string[]) => {
  const storage = { stat: async (uri: string) => (homes.includes(uri.slice(PARENT.length + 1)) ? ({ uri } as Entry) : null) };
  return homesVerdict(storage, PARENT, users);
};

test('is good if every user in the site file has a home folder', async () => {
  expect(await verdict(['*'], [])).toEqual({ state: 'ok', message: 'the site file lists no users', hint: '' });
  expect(await verdict(['alice'], ['alice'])).toMatchObject({
    state: 'ok',
    message: 'alice, the only user in quotas.users of the site file, has a home folder',
  });
  expect(await verdict(['*', 'alice', 'bob'], ['alice', 'bob'])).toMatchObject({
    state: 'ok',
    message: 'all 2 users in quotas.users of the site file have home folders',
  });
});

test('lists users without a home folder, with the commands that create it', async () => {
  expect(await verdict(['alice', 'bob', '../x'], ['alice'])).toEqual({
    state: 'warning',
    message: 'users in quotas.users of the site file without a home folder: bob',
    hint: 'Their jobs cannot create a staging folder. As the HDFS admin, run hdfs dfs -mkdir hdfs://nn/user/bob && hdfs dfs -chown bob hdfs://nn/user/bob',
  });
  const many = Array.from({ length: 40 }, (_, at) => `u${at}`);
  expect((await verdict(many, ['u0'])).message).toBe(
    'users in quotas.users of the site file without a home folder: u1, u2, u3, u4, u5 and 34 more',
  );
});
