import { expect, test } from 'vitest';
import { parseUses } from './cache-uses.ts';

const [A, B] = ['a', 'b'].map((digit) => digit.repeat(64)) as [string, string];
const ID = 'application_1795225023264_0001';
const JOB = { version: 1, submittedAt: 1000, job: { name: 'mnist' }, cacheEntries: [A, B] };

test('a job uses the cache entries that its job.json lists', () => {
  expect(parseUses(JSON.stringify(JOB), ID, 5)).toEqual({
    use: { id: ID, name: 'mnist', createdAt: 1000 },
    hashes: new Set([A, B]),
    damaged: false,
  });
});

test.each([
  ['cut short', JSON.stringify(JOB).slice(0, -40)],
  ['empty', ''],
  ['not a job', '[1]'],
  ['without the list', JSON.stringify({ ...JOB, cacheEntries: undefined })],
  ['with another type of list', JSON.stringify({ ...JOB, cacheEntries: [1] })],
])('the uses of a job.json that is %s are unknown', (_, text) => {
  expect(parseUses(text, ID, 5)).toEqual({ use: { id: ID, name: '', createdAt: 5 }, hashes: new Set(), damaged: true });
});
