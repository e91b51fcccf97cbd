import { expect, test } from 'vitest';
import { decodeTokenUrl } from '../hadoop/rpc/credentials.ts';
import { announcedAt, lifetimeOf, replacedAt, retryPauseMs } from './token-keeper.ts';

const DAY = 86_400_000;
/** A Hadoop 3.4.3 WebHDFS token that is valid for 7 days. */
const TOKEN = decodeTokenUrl(
  'HQAFYWxpY2UEeWFybgCKAaILvDGzigGiL8i1swECFDmwk90206eoUriHOVVnKBydsrAQFUhERlNfREVMRUdBVElPTl9UT0tFTg8xMjcuMC4wLjE6MTEwMjA',
);

test('the tokens of a job have the lifetime of its HDFS token', () => {
  const lifetime = lifetimeOf([{ ...TOKEN, kind: 'YARN_AM_RM_TOKEN', identifier: new Uint8Array([8, 1]) }, TOKEN]);
  expect(lifetime).not.toBeNull();
  expect((lifetime?.endsAt ?? 0) - (lifetime?.issuedAt ?? 0)).toBe(7 * DAY);
  expect(lifetimeOf([])).toBeNull();
});

test.each([
  ['a week', 7 * DAY, DAY],
  ['a month', 30 * DAY, DAY],
  ['a minute', 60_000, 60_000 / 7],
])('the expiry is announced in time for a lifetime of %s', (_, length, before) => {
  expect(announcedAt({ issuedAt: 1000, endsAt: 1000 + length })).toBeCloseTo(1000 + length - before, 3);
});

test('tokens are replaced after three quarters of their lifetime', () => {
  expect(replacedAt({ issuedAt: 1000, endsAt: 1000 + DAY })).toBe(1000 + 0.75 * DAY);
});

test('attempts to replace tokens become more frequent towards the expiry, within limits', () => {
  const lifetime = { issuedAt: 0, endsAt: DAY };
  expect(retryPauseMs(lifetime, 0.75 * DAY)).toBe(60_000);
  expect(retryPauseMs(lifetime, DAY - 400_000)).toBe(20_000);
  expect(retryPauseMs(lifetime, 2 * DAY)).toBe(2_000);
});
