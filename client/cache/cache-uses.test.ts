import { expect, test } from 'vitest';
import { parseUses } from './cache-uses.ts';

const [A, B, C] = ['a', 'b', 'c'].map((digit) => digit.repeat(64)) as [string, string, string];
const ID = 'application_1795225023264_0001';

const JOB = {
  version: 1,
  submittedAt: 1000,
  job: { name: 'mnist', command: `cat /user/alice/.tony-ts/cache/${C}/words/a.txt` },
  data: { numbers: `hdfs:///user/alice/.tony-ts/cache/${A}/numbers` },
  resources: [{ uri: `hdfs://nn:8020/user/alice/.tony-ts/cache/${B}/source-12.tar.gz` }],
};

test('a job uses every cache entry whose hash its job.json contains, in any field', () => {
  const { use, hashes, damaged } = parseUses(JSON.stringify(JOB), ID, 5);
  expect(use).toEqual({ applicationId: ID, name: 'mnist', submittedAt: 1000 });
  expect([...hashes].sort()).toEqual([A, B, C]);
  expect(damaged).toBe(false);
});

test('finds a hash whose letters are escaped in JSON, and ignores a longer hexadecimal number that contains a hash', () => {
  expect([...parseUses(JSON.stringify(JOB).replaceAll('a', '\\u0061'), ID, 5).hashes]).toContain(A);
  expect([...parseUses(JSON.stringify({ ...JOB, data: {}, job: `${A}a` }), ID, 5).hashes]).toEqual([B]);
});

test.each([
  ['cut short', JSON.stringify(JOB).slice(0, -40)],
  ['empty', ''],
  ['not a job', '[1]'],
  ['without resources', JSON.stringify({ ...JOB, resources: undefined })],
])('marks a job.json that is %s as damaged, and keeps the hashes that it still contains', (_, text) => {
  const { use, hashes, damaged } = parseUses(text, ID, 5);
  expect({ use, damaged }).toEqual({ use: { applicationId: ID, name: '', submittedAt: 5 }, damaged: true });
  expect([...hashes].every((hash) => text.includes(hash))).toBe(true);
});
