import fc from 'fast-check';
import { expect, test } from 'vitest';
import { equalShards } from './equal-shards.ts';

const counts = fc.array(fc.nat(20), { minLength: 1, maxLength: 12 });

function records(shards: readonly (readonly { partition: number; from: number; to: number | null }[])[]): string[][] {
  return shards.map((pieces) =>
    pieces.flatMap(({ partition, from, to }) => Array.from({ length: (to ?? 0) - from }, (_, place) => `${partition}:${from + place}`)),
  );
}

function all(sizes: readonly number[]): string[] {
  return sizes.flatMap((size, partition) => Array.from({ length: size }, (_, place) => `${partition}:${place}`));
}

test('cut gives each rank the same number of different records, and leaves out fewer than one for each rank', () => {
  fc.assert(
    fc.property(counts, fc.integer({ min: 1, max: 7 }), (sizes, worldSize) => {
      const shards = records(equalShards(sizes, worldSize, 'cut'));
      const total = all(sizes).length;
      expect(shards.map(({ length }) => length)).toEqual(Array(worldSize).fill(Math.floor(total / worldSize)));
      expect(shards.flat()).toEqual(all(sizes).slice(0, Math.floor(total / worldSize) * worldSize));
    }),
  );
});

test('pad gives each rank the same number of records, contains all of them, and repeats fewer than one for each rank', () => {
  fc.assert(
    fc.property(counts, fc.integer({ min: 1, max: 7 }), (sizes, worldSize) => {
      const shards = records(equalShards(sizes, worldSize, 'pad'));
      const total = all(sizes);
      expect(new Set(shards.map(({ length }) => length)).size).toBe(1);
      expect(shards.flat().slice(0, total.length)).toEqual(total);
      expect(shards.flat().length - total.length).toBeLessThan(worldSize);
    }),
  );
});

test('no piece is empty or leaves its partition', () => {
  fc.assert(
    fc.property(counts, fc.integer({ min: 1, max: 7 }), fc.constantFrom('pad' as const, 'cut' as const), (sizes, worldSize, remainder) => {
      for (const { partition, from, to } of equalShards(sizes, worldSize, remainder).flat()) {
        expect(from).toBeLessThan(to as number);
        expect(to).toBeLessThanOrEqual(sizes[partition] as number);
      }
    }),
  );
});
