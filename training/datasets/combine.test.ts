import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FileStorage } from '../../storage/file-storage.ts';
import { Dataset } from './dataset.ts';
import { fromArray, tfrecords, zip } from './sources.ts';
import { folderWith, tfRecordFile } from './testing/files.ts';

const storage = new FileStorage();
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);

describe('zip', () => {
  test('pairs elements by their places, for any number of ranks, as long as the shortest dataset', async () => {
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

  test('takes batches with batches only', async () => {
    const dataset = fromArray(numbers(10));
    expect(() => zip([dataset, dataset.batch(2)])).toThrow('batches');
    expect(() => dataset.concatenate(dataset.batch(2) as unknown as Dataset<number>)).toThrow('batches');
    expect(() => zip([])).toThrow('no datasets');
    expect(zip([dataset.batch(2), dataset.batch(2)]).isBatched).toBe(true);
  });
});

describe('concatenate', () => {
  test('gives one dataset behind the other', async () => {
    const dataset = fromArray([1, 2]).concatenate(fromArray([3]), fromArray<number>([]), fromArray([4, 5]));
    expect(await dataset.toArray({ storage })).toEqual([1, 2, 3, 4, 5]);
    expect(await dataset.repeat(2).toArray({ storage })).toHaveLength(10);
  });
});

describe('interleave', () => {
  // What tf.data.Dataset.interleave documents for these numbers.
  test('takes turns as tf.data does', async () => {
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

  test('gives every element of every dataset once, each dataset in its order', async () => {
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
    );
  });

  test('reads several files beside each other, and opens no more of them than it may', async () => {
    const folder = await folderWith(
      Object.fromEntries(numbers(9).map((file) => [`f${file}`, tfRecordFile(numbers(20).map((record) => `${file}/${record}`))])),
    );
    let open = 0;
    let most = 0;
    const counted = (file: number) =>
      new Dataset<Buffer>({
        open: (context, from) => {
          most = Math.max(most, ++open);
          const stream = tfrecords(`${folder}/f${file}`).node.open(context, from);
          let isOpen = true;
          const close = async () => {
            if (isOpen) open--;
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

  test('says what is wrong with a dataset in it', async () => {
    const dataset = fromArray(['none']).interleave((name) => tfrecords(`/nowhere/${name}`));
    await expect(dataset.toArray({ storage })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});
