import { expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { onSkippedServer } from '../tls/skipped-servers.ts';
import { AddressRound, outcomeOf } from './address-round.ts';

test('starts with the address that answered last, and tries each of the others once per round', async () => {
  const round = new AddressRound(['a', 'b', 'c'], 1_000);
  const asked: string[] = [];
  const only = (good: string) =>
    round.run<string>(async (address) => {
      asked.push(address);
      return address === good ? { result: address } : { again: 'no' };
    });
  expect(await only('b')).toEqual({ result: 'b' });
  expect(await only('b')).toEqual({ result: 'b' });
  expect(await only('a')).toEqual({ result: 'a' });
  expect(asked).toEqual(['a', 'b', 'b', 'b', 'c', 'a']);
});

test.each([
  ['doubled up to 2 s', 1, 10_000, 0, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000, 2_000]],
  ['halved at random', 0, 400, 0, [25, 50, 100, 200]],
  ['none that would exceed the maximum wait, which the attempts use up too', 1, 400, 60, [50, 100]],
])('pauses between rounds: %s', async (_, random, maxWaitMs, tryMs, pauses) => {
  let now = 1_000;
  const paused: number[] = [];
  const wait = async (ms: number) => {
    paused.push(ms);
    now += ms;
  };
  let tries = 0;
  const ended = await new AddressRound(['a'], maxWaitMs, { pacing: { now: () => now, random: () => random, wait } }).run(async () => {
    tries += 1;
    now += tryMs;
    return { again: 'not yet' };
  });
  expect(ended).toEqual({ reason: 'a: not yet' });
  expect(paused).toEqual(pauses);
  expect(tries).toBe(pauses.length + 1);
});

test('tries each address once if the maximum wait is 0, and fails immediately without addresses', async () => {
  const asked: string[] = [];
  const ask = async (address: string) => {
    asked.push(address);
    return { again: 'no' };
  };
  expect(await new AddressRound(['a', 'b'], 0).run(ask)).toEqual({ reason: 'b: no' });
  expect(await new AddressRound([], 0).run(ask)).toEqual({ reason: 'no address is known' });
  expect(asked).toEqual(['a', 'b']);
});

test('ends immediately when the round is closed or an attempt throws', async () => {
  const round = new AddressRound(['a'], 60_000);
  const ended = round.run(async () => ({ again: 'no' }));
  round.close();
  expect(await ended).toEqual({ reason: 'a: no' });
  await expect(
    new AddressRound(['a'], 60_000).run(async () => {
      throw new Error('refused');
    }),
  ).rejects.toThrow('refused');
});

test('uses the shorter maximum wait until an address has answered once', async () => {
  let now = 0;
  let tries = 0;
  const wait = async (ms: number) => {
    now += ms;
  };
  const pacing = { now: () => now, random: () => 1, wait };
  const round = new AddressRound(['a'], 1_000, { maxFirstWaitMs: 200, pacing });
  const failed = async () => {
    tries += 1;
    return { again: 'no' };
  };
  await round.run(failed);
  expect({ now, tries }).toEqual({ now: 150, tries: 3 });
  await round.run(async () => ({ result: 1 }));
  now = 0;
  await round.run(failed);
  expect(now).toBe(750);
});

test('skips a server that is not trusted, and reports it once when another server responds', async () => {
  const untrusted = new TonyError('TLS_FAILED', 'The certificate of a has expired.');
  const reports: TonyError[] = [];
  onSkippedServer((failure) => reports.push(failure));
  const round = new AddressRound(['a', 'b'], 1_000);
  const ask = () => round.run<string>(async (address) => (address === 'a' ? outcomeOf(untrusted) : { result: address }));
  expect([await ask(), await ask()]).toEqual([{ result: 'b' }, { result: 'b' }]);
  expect(reports).toEqual([untrusted]);
});

test('fails immediately if no server is trusted, and with both reasons if the other servers do not respond', async () => {
  const untrusted = new TonyError('TLS_FAILED', 'The certificate of a has expired.');
  await expect(new AddressRound(['a', 'b'], 60_000).run(async () => outcomeOf(untrusted))).rejects.toBe(untrusted);
  const ended = await new AddressRound(['a', 'b'], 0).run(async (address) => (address === 'a' ? outcomeOf(untrusted) : { again: 'no' }));
  expect(ended).toEqual({ reason: 'b: no. The certificate of a has expired' });
  expect(() => outcomeOf(new TonyError('ACCESS_DENIED', 'no'))).toThrow('no');
});
