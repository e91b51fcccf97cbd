import { expect, test } from 'vitest';
import type { Entry } from '../../storage/storage.ts';
import { historyVerdict } from './verdicts.ts';

const FOLDER = 'hdfs://nn/tony/history';
const verdict = (permission: number) => historyVerdict(FOLDER, { owner: 'hdfs', permission } as Entry);

test('a sticky folder in which everyone can create folders is good, and so are histories in home folders', () => {
  expect(verdict(0o1777)).toMatchObject({ state: 'ok', message: FOLDER });
  expect(historyVerdict(null, null)).toMatchObject({ state: 'ok' });
});

test('a missing folder is an error, because every submission fails', () => {
  expect(historyVerdict(FOLDER, null)).toEqual({
    state: 'error',
    message: `${FOLDER} does not exist`,
    hint: `Run hdfs dfs -mkdir -p ${FOLDER} && hdfs dfs -chmod 1777 ${FOLDER} as the HDFS admin, or correct history.dir.`,
  });
});

test.each([
  [0o755, 'users without a folder in it cannot submit jobs'],
  [0o777, 'each user can remove the histories of others'],
])('mode %o is a warning, and the hint names the command', (permission, effect) => {
  expect(verdict(permission)).toEqual({
    state: 'warning',
    message: `${FOLDER} has mode ${permission.toString(8)}, so ${effect}`,
    hint: `Run hdfs dfs -chmod 1777 ${FOLDER} as hdfs.`,
  });
});

test('folders with the name of another user give a warning, because they hide the histories of that user', () => {
  const folders = [
    { name: 'alice', owner: 'bob' },
    { name: 'carol', owner: 'carol' },
  ] as Entry[];
  expect(historyVerdict(FOLDER, { owner: 'hdfs', permission: 0o1777 } as Entry, folders)).toEqual({
    state: 'warning',
    message: expect.stringContaining('do not belong to the user of this name: alice (of bob).'),
    hint: expect.stringContaining(`hdfs dfs -chown alice ${FOLDER}/alice`),
  });
  expect(historyVerdict(FOLDER, { owner: 'hdfs', permission: 0o1777 } as Entry, folders.slice(1))).toMatchObject({ state: 'ok' });
});
