import { expect, test } from 'vitest';
import type { Entry } from '../../storage/storage.ts';
import { homeVerdict } from './verdicts.ts';

const HOME = 'hdfs://nn/user/alice';
const verdict = (change: Partial<Entry> | null) =>
  homeVerdict('alice, in research', 'alice', HOME, change && ({ owner: 'alice', permission: 0o700, ...change } as Entry));

test('a home folder that belongs to the user is good', () => {
  expect(verdict({})).toEqual({ state: 'ok', message: 'alice, in research', hint: '' });
});

test.each([
  [null, /does not exist$/, `hdfs dfs -mkdir ${HOME} && hdfs dfs -chown alice ${HOME}`],
  [{ owner: 'hdfs' }, /belongs to hdfs$/, `hdfs dfs -chown alice ${HOME}`],
  [{ permission: 0o500 }, /cannot write to .* \(mode 500\)$/, `hdfs dfs -chmod u+rwx ${HOME}`],
] as const)('the home folder %j is a warning, and the hint names the command', (change, text, command) => {
  expect(verdict(change)).toMatchObject({
    state: 'warning',
    message: expect.stringMatching(text),
    hint: expect.stringContaining(command),
  });
});
