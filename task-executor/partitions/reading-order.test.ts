import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { FeedOpening } from '../../contract/partitions/partition-feed.ts';
import { ReadingOrder, type ReadingPlace } from './reading-order.ts';

const DIGEST = '0'.repeat(64);

function orderOf(sizes: readonly number[], opening: Partial<FeedOpening> = {}): ReadingOrder {
  const all: FeedOpening = {
    source: 'driver',
    format: 'arrow',
    partitions: sizes.length,
    counts: null,
    epochs: 2,
    shards: 'balanced',
    remainder: 'pad',
    seed: 7,
    cacheBytes: 1,
    ...opening,
  };
  const order = new ReadingOrder(all, 0);
  sizes.forEach((records, index) => {
    order.pieces.push({ partition: index, from: 0, to: null });
    order.facts.push({ index, records, digest: DIGEST });
  });
  order.isComplete = true;
  return order;
}

function* walk(order: ReadingOrder): Generator<{ readonly epoch: number; readonly index: number }> {
  for (let at: ReadingPlace | null = { epoch: 0, place: 0 }; at !== null; at = order.next(at)) {
    yield { epoch: at.epoch, index: order.at(at) as number };
  }
}

test('each epoch contains each piece once', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(9), { minLength: 1 }), fc.integer({ min: 1, max: 4 }), fc.option(fc.nat()), (sizes, epochs, seed) => {
      const read = [...walk(orderOf(sizes, { epochs, seed }))];
      for (let epoch = 0; epoch < epochs; epoch++) {
        const indices = read.filter((each) => each.epoch === epoch).map(({ index }) => index);
        expect(indices.sort((a, b) => a - b)).toEqual(sizes.map((_, index) => index));
      }
      expect(read).toHaveLength(sizes.length * epochs);
    }),
  );
});

test('the order depends on the epoch and the seed, and without a seed it is that of the source', () => {
  const sizes = Array.from({ length: 20 }, () => 1);
  const epochs = (seed: number | null) => {
    const read = [...walk(orderOf(sizes, { seed, shards: 'equal' }))];
    return [0, 1].map((epoch) => read.filter((each) => each.epoch === epoch).map(({ index }) => index));
  };
  const [first, second] = epochs(1);
  expect(first).not.toEqual(second);
  expect(epochs(1)).toEqual([first, second]);
  expect(epochs(2)[0]).not.toEqual(first);
  const plain = sizes.map((_, index) => index);
  expect(epochs(null)).toEqual([plain, plain]);
});

test('a position leads to the record that follows it', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(9), { minLength: 1 }), fc.nat(1), fc.nat(100), (sizes, epoch, drawn) => {
      const order = orderOf(sizes);
      const records = [...walk(order)].flatMap((each) =>
        Array.from({ length: sizes[each.index] as number }, (_, row) => ({ ...each, row })),
      );
      const inEpoch = records.filter((each) => each.epoch === epoch);
      const position = Math.min(drawn, inEpoch.length);
      const found = order.find({ epoch, records: position });
      const expected = inEpoch[position] ?? records.find((each) => each.epoch > epoch);
      if (expected === undefined) {
        // Only empty pieces may follow.
        expect(found === null || (found !== 'unknown' && found.skip === 0)).toBe(true);
        return;
      }
      let at: ReadingPlace | null = found === null || found === 'unknown' ? null : found.at;
      let skip = found === null || found === 'unknown' ? 0 : found.skip;
      while (at !== null && (sizes[order.at(at) as number] as number) <= skip) {
        skip = 0;
        at = order.next(at);
      }
      expect(at).not.toBeNull();
      const index = order.at(at as ReadingPlace);
      expect({ epoch: (at as ReadingPlace).epoch, index, row: skip }).toEqual(expected);
    }),
  );
});

test('while pieces are missing, only the known ones of the first epoch can be read', () => {
  const order = orderOf([3, 4]);
  order.isComplete = false;
  expect(order.at({ epoch: 0, place: 1 })).toBe(1);
  expect(order.next({ epoch: 0, place: 1 })).toEqual({ epoch: 0, place: 2 });
  expect(order.at({ epoch: 0, place: 2 })).toBe('unknown');
  expect(order.find({ epoch: 0, records: 7 })).toEqual({ at: { epoch: 0, place: 2 }, skip: 0 });
  expect(order.find({ epoch: 1, records: 2 })).toBe('unknown');
  // The place turns out to be the end of the epoch when no further piece is assigned.
  expect(order.settle({ epoch: 0, place: 2 })).toEqual({ epoch: 0, place: 2 });
  order.isComplete = true;
  expect(order.settle({ epoch: 0, place: 2 })).toEqual({ epoch: 1, place: 0 });
  expect(order.settle({ epoch: 1, place: 2 })).toBeNull();
});
