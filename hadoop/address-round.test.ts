import { expect, test } from 'vitest';
import { AddressRound } from './address-round.ts';

test('begins with the one that answered last, and passes over the others once a round', async () => {
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

test('waits longer each time, no longer than patience lasts', async () => {
  const at: number[] = [];
  const started = performance.now();
  const ended = await new AddressRound(['a'], 400).run(async () => {
    at.push(performance.now() - started);
    return { again: 'not yet' };
  });
  expect(ended).toEqual({ reason: 'a: not yet' });
  expect(performance.now() - started).toBeLessThan(1_000);
  expect(at.length).toBeGreaterThan(2);
  expect(at.length).toBeLessThan(8);
});

test('without patience each address is still asked once; without addresses nobody is', async () => {
  const asked: string[] = [];
  const ask = async (address: string) => {
    asked.push(address);
    return { again: 'no' };
  };
  expect(await new AddressRound(['a', 'b'], 0).run(ask)).toEqual({ reason: 'b: no' });
  expect(await new AddressRound([], 0).run(ask)).toEqual({ reason: 'no address is known' });
  expect(asked).toEqual(['a', 'b']);
});

test('ends at once when it is closed, or when a try throws', async () => {
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
