import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../../platform/json-value.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { LocalSplits } from '../reading/split-assigner.ts';
import { Dataset } from '../sources/dataset.ts';
import { fromArray, lines, sampleFrom, tfRecords, zip } from '../sources/sources.ts';
import { folderWith, tfRecordFile } from '../testing/files.ts';

const storage = new FileStorage();
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);

describe('zip', () => {
  test('zip pairs elements by position up to the end of the shortest dataset, for any number of ranks', async () => {
    const [many, few] = [fromArray(numbers(1000)), fromArray(numbers(700)).map((value) => `t${value}`)];
    for (const count of [1, 3]) {
      const shares = await Promise.all(numbers(count).map((index) => zip({ many, few }).toArray({ storage, share: { index, count } })));
      const all = shares.flat().sort((a, b) => a.many - b.many);
      expect(all).toEqual(numbers(700).map((value) => ({ many: value, few: `t${value}` })));
    }
    expect(
      await zip([many.skip(5), few])
        .take(2)
        .toArray({ storage }),
    ).toEqual([
      [5, 't0'],
      [6, 't1'],
    ]);
  });

  test('zip combines batches only with batches', async () => {
    const dataset = fromArray(numbers(10));
    expect(() => zip([dataset, dataset.batch(2)])).toThrow('batched and unbatched');
    expect(() => dataset.concatenate(dataset.batch(2) as unknown as Dataset<number>)).toThrow('batched and unbatched');
    expect(() => zip([])).toThrow('at least one dataset');
    expect(zip([dataset.batch(2), dataset.batch(2)]).isBatched).toBe(true);
  });
});

describe('concatenate', () => {
  test('concatenate appends one dataset to the other', async () => {
    const dataset = fromArray([1, 2]).concatenate(fromArray([3]), fromArray<number>([]), fromArray([4, 5]));
    expect(await dataset.toArray({ storage })).toEqual([1, 2, 3, 4, 5]);
    expect(await dataset.repeat(2).toArray({ storage })).toHaveLength(10);
  });
});

describe('interleave', () => {
  // The example from TensorFlow's documentation for tf.data.Dataset.interleave.
  test('interleave alternates between datasets as tf.data does', async () => {
    const dataset = fromArray([1, 2, 3, 4, 5]).interleave((value) => fromArray(new Array<number>(6).fill(value)), {
      cycleLength: 2,
      blockLength: 4,
    });
    expect(await dataset.toArray({ storage })).toEqual([
      ...[1, 1, 1, 1],
      ...[2, 2, 2, 2],
      ...[1, 1],
      ...[2, 2],
      ...[3, 3, 3, 3],
      ...[4, 4, 4, 4],
      ...[3, 3],
      ...[4, 4],
      ...[5, 5, 5, 5],
      ...[5, 5],
    ]);
  });

  test('interleave yields every element once, and keeps the order of each dataset', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(12), { maxLength: 8 }),
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 4 }),
        async (lengths, cycleLength, blockLength) => {
          const all = await fromArray(lengths.map((length, index) => ({ length, index })))
            .interleave(({ length, index }) => fromArray(numbers(length).map((value) => [index, value] as const)), {
              cycleLength,
              blockLength,
            })
            .toArray({ storage });
          for (const [index, length] of lengths.entries()) {
            expect(all.filter(([of]) => of === index).map(([, value]) => value)).toEqual(numbers(length));
          }
          expect(all).toHaveLength(lengths.reduce((sum, length) => sum + length, 0));
        },
      ),
      { examples: [[[0, 0, 1], 1, 1]] },
    );
  });

  test('interleave reads several files concurrently, up to its limit of open files', async () => {
    const folder = await folderWith(
      Object.fromEntries(numbers(9).map((file) => [`f${file}`, tfRecordFile(numbers(20).map((record) => `${file}/${record}`))])),
    );
    let open = 0;
    let most = 0;
    const counted = (file: number) =>
      new Dataset<Buffer>({
        open: (context, from) => {
          most = Math.max(most, ++open);
          const stream = tfRecords(`${folder}/f${file}`).node.open(context, from);
          let isOpen = true;
          const close = async () => {
            if (isOpen) {
              open--;
            }
            isOpen = false;
            await stream.close();
          };
          return { next: () => stream.next(), close };
        },
      });
    const dataset = fromArray(numbers(9)).interleave(counted, { cycleLength: 3 });
    expect((await dataset.map(String).toArray({ storage })).slice(0, 4)).toEqual(['0/0', '1/0', '2/0', '0/1']);
    expect(most).toBeLessThanOrEqual(3);
    expect(open).toBe(0);
    const reader = dataset.read({ storage });
    await reader.next();
    await reader.return();
    expect(open).toBe(0);
  });

  test('interleave passes on an error of an inner dataset', async () => {
    const dataset = fromArray(['none']).interleave((name) => tfRecords(`/nowhere/${name}`));
    await expect(dataset.toArray({ storage })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

describe('sampleFrom', () => {
  const parts = (many = 3000) => [
    fromArray(numbers(many)).map((value) => ({ of: 'a', value })),
    fromArray(numbers(1000)).map((value) => ({ of: 'b', value })),
  ];

  test('sampleFrom draws by weight, yields each element once, and changes the order in each epoch', async () => {
    const mixed = sampleFrom(parts(), { weights: [3, 1] });
    const all = await mixed.toArray({ storage });
    const early = all.slice(0, 2000).filter(({ of }) => of === 'a').length;
    // The expected value is 1500, with a standard deviation of 19.
    expect(Math.abs(early - 1500)).toBeLessThan(100);
    for (const [of, count] of [
      ['a', 3000],
      ['b', 1000],
    ] as const) {
      expect(all.filter((element) => element.of === of).map(({ value }) => value)).toEqual(numbers(count));
    }
    expect(await mixed.toArray({ storage })).toEqual(all);
    expect(await mixed.toArray({ storage, epoch: 1 })).not.toEqual(all);
    expect(await sampleFrom(parts(), { weights: [1, 0] }).toArray({ storage })).toHaveLength(3000);
  });

  test('sampleFrom divides its elements among ranks, and resumes at any position with exactly the remaining elements', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(3000), fc.integer({ min: 1, max: 3 }), fc.nat(2000), async (many, count, stop) => {
        const mixed = sampleFrom(parts(many), { weights: [2, 1] }).shuffle(20);
        const shares = await Promise.all(numbers(count).map((index) => mixed.toArray({ storage, share: { index, count } })));
        expect(shares.flat()).toHaveLength(many + 1000);
        expect(new Set(shares.flat().map(({ of, value }) => of + value)).size).toBe(many + 1000);
        const reader = mixed.read({ storage, share: { index: 0, count } });
        const taken: unknown[] = [];
        for (let index = 0; index < stop && (await reader.hasNext()); index++) {
          taken.push((await reader.next()).value);
        }
        const state = JSON.parse(JSON.stringify(reader.state())) as Json;
        await reader.return();
        expect([...taken, ...(await mixed.toArray({ storage, state }))]).toEqual(shares[0]);
      }),
      { numRuns: 20 },
    );
  });

  test('sampleFrom rejects invalid arguments', () => {
    expect(() => sampleFrom([])).toThrow('0 datasets');
    expect(() => sampleFrom(parts(), { weights: [1] })).toThrow('2 datasets and 1 weights');
    expect(() => sampleFrom(parts(), { weights: [1, -1] })).toThrow('negative');
  });
});

describe('operations that need the same elements on each reader or in each pass reject dispatch()', () => {
  const all = () => fromArray(numbers(9));
  test.each<[string, (given: Dataset<number>) => Dataset<unknown>]>([
    ['cache', (given) => given.cache()],
    ['zip', (given) => zip([given, all()])],
    ['sampleFrom', (given) => sampleFrom([all(), given])],
    ['take', (given) => given.take(3)],
    ['skip', (given) => given.skip(3)],
    ['shard', (given) => given.shard({ index: 1, count: 2 })],
  ])('%s', async (method, combined) => {
    for (const dataset of [combined(all().dispatch()), combined(all()).dispatch().prefetch(2)]) {
      await expect(dataset.toArray({ storage })).rejects.toMatchObject({ code: 'USAGE', hint: expect.stringContaining(`${method}()`) });
    }
  });

  test('interleave() supports dispatch() on its result, not on its inner datasets', async () => {
    await expect(
      all()
        .interleave(() => all().dispatch())
        .toArray({ storage }),
    ).rejects.toMatchObject({ code: 'USAGE', hint: expect.stringContaining('interleave()') });
    const file = `${await folderWith({ letters: Buffer.from('a\nb\n') })}/letters`;
    const dataset = lines(file)
      .interleave((line) => lines(file).map((other) => line + other))
      .dispatch();
    expect((await dataset.toArray({ storage, splits: new LocalSplits().reader() })).sort()).toEqual(['aa', 'ab', 'ba', 'bb']);
  });
});
