import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Column } from '../../../contract/encoding/idx.ts';
import type { Json } from '../../../platform/json-value.ts';
import type { Dataset } from '../sources/dataset.ts';
import { type DataFrameOptions, frameDataset, fromDataFrame } from '../sources/frame-source.ts';
import { folderWith } from '../testing/files.ts';
import { type Columns, FakePieces, type StoredPiece, storedPieces } from './testing/pieces.ts';

const GOLDEN = path.join(import.meta.dirname, '..', 'golden', 'frames', 'types.arrow');
const golden: StoredPiece = { path: GOLDEN, records: 5 };

function dataset(
  pieces: readonly StoredPiece[],
  options: DataFrameOptions = {},
  opening: ConstructorParameters<typeof FakePieces>[1] = {},
) {
  return frameDataset('train', new FakePieces(pieces, opening), options);
}

/** Partitions whose rows have the IDs 0, 1, 2, ... */
function numbered(partitions: readonly (readonly number[])[]): Columns[][] {
  let next = 0;
  return partitions.map((batches) =>
    batches.map((size) => {
      const ids = Array.from({ length: size }, () => next++);
      return { id: Int32Array.from(ids), text: ids.map((id) => `row ${id}`), half: Float64Array.from(ids, (id) => id / 2) };
    }),
  );
}

async function read<T>(
  data: Dataset<T>,
  options: { epoch?: number; state?: Json; most?: number } = {},
): Promise<{ items: T[]; state: Json }> {
  const { epoch = 0, state = null, most = Number.POSITIVE_INFINITY } = options;
  const reader = data.read({ epoch, state });
  const items: T[] = [];
  while (items.length < most && (await reader.hasNext())) {
    items.push((await reader.next()).value as T);
  }
  const place = reader.state();
  await reader.return();
  return { items, state: place };
}

const idsOf = (batches: readonly unknown[]): number[] => batches.flatMap((batch) => [...(batch as { id: Column }).id.values]);
const ascending = (ids: readonly number[]) => [...ids].sort((one, other) => one - other);
const upTo = (end: number) => Array.from({ length: end }, (_, id) => id);

const partitionSizes = fc.array(fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 4 });

test('each epoch contains each row once, in full batches and in an order of its own that depends on the seed', async () => {
  await fc.assert(
    fc.asyncProperty(partitionSizes, fc.integer({ min: 1, max: 50 }), fc.nat(99), async (sizes, batchSize, seed) => {
      const pieces = await storedPieces(numbered(sizes));
      const total = sizes.flat().reduce((sum, size) => sum + size, 0);
      const data = dataset(pieces, {}, { seed, epochs: 2 }).batch(batchSize);
      const [first, second, again] = await Promise.all([read(data), read(data, { epoch: 1 }), read(data)]);
      for (const { items } of [first, second]) {
        expect(ascending(idsOf(items))).toEqual(upTo(total));
        const lengths = items.map((batch) => (batch as { text: string[] }).text.length);
        expect(lengths.slice(0, -1).every((length) => length === batchSize)).toBe(true);
      }
      expect(again.items).toEqual(first.items);
      if (total > 20) {
        expect(idsOf(second.items)).not.toEqual(idsOf(first.items));
        expect(idsOf(first.items)).not.toEqual(upTo(total));
      }
    }),
    { numRuns: 30 },
  );
});

test('batches of columns equal the batches of rows', async () => {
  await fc.assert(
    fc.asyncProperty(partitionSizes, fc.integer({ min: 1, max: 50 }), fc.boolean(), async (sizes, batchSize, dropRemainder) => {
      const data = dataset(await storedPieces(numbered(sizes)));
      const [columns, rows] = await Promise.all([
        read(data.batch(batchSize, { dropRemainder })),
        read(data.map((row) => row).batch(batchSize, { dropRemainder })),
      ]);
      expect(columns.items).toEqual(rows.items);
    }),
    { numRuns: 20 },
  );
});

test('a reader that resumes anywhere reads exactly the remaining rows, in batches, as rows and in shuffled blocks', async () => {
  const sources: readonly ((data: Dataset<unknown>, size: number) => Dataset<unknown>)[] = [
    (data, size) => data.batch(size),
    (data) => data,
    (data, size) => data.map((row) => row).batch(size),
    (data, size) => data.shuffle(17).batch(size),
    (data, size) => data.batch(size).prefetch(2),
  ];
  await fc.assert(
    fc.asyncProperty(partitionSizes, fc.integer({ min: 1, max: 20 }), fc.nat(200), fc.nat(4), async (sizes, size, most, kind) => {
      const pieces = await storedPieces(numbered(sizes));
      const data = sources[kind]?.(dataset(pieces, {}, { epochs: 3 }), size) as Dataset<unknown>;
      const all = await read(data, { epoch: 2 });
      const before = await read(data, { epoch: 2, most });
      const after = await read(data, { epoch: 2, state: before.state });
      expect([...before.items, ...after.items]).toEqual(all.items);
    }),
    { numRuns: 60 },
  );
});

test('a resumed reader asks for the position of its next batch, not for the beginning', async () => {
  const pieces = new FakePieces(await storedPieces(numbered([[40], [40]])));
  const data = frameDataset('train', pieces, {}).batch(30);
  const { state } = await read(data, { most: 2 });
  await read(data, { state });
  expect(pieces.positions.map(({ records }) => records)).toEqual([0, 30]);
});

test('without a seed, rows keep their order', async () => {
  const data = dataset(await storedPieces(numbered([[3, 4, 2]])), {}, { seed: null });
  expect(idsOf((await read(data.batch(4))).items)).toEqual(upTo(9));
});

describe('the types that pyarrow writes', () => {
  const columns = ['yes', 'tiny', 'big', 'single', 'double', 'text', 'bytes', 'day', 'time', 'vector', 'fixed', 'ragged', 'words'];
  const unshuffled = { seed: null };
  const millis = [1500.001, 2000, 3000, -4000, 0.005];

  test('rows have the values that Parquet files have', async () => {
    const { items } = await read(dataset([golden], { columns, fill: { text: '-' } }, unshuffled));
    expect(items[0]).toEqual({
      ...{ yes: true, tiny: 1, big: 1, single: 1.5, double: 0.1, text: 'a', bytes: Buffer.from('\0a'), day: 18_262, time: millis[0] },
      ...{ vector: Float64Array.of(1, 2), fixed: Int32Array.of(1, 2), ragged: Int32Array.of(1), words: ['a'] },
    });
    expect(items[2]).toMatchObject({ text: '-', ragged: new Int32Array(), words: [] });
    expect(items[3]).toMatchObject({ big: 2 ** 53 - 1, text: '日本', time: -4000, fixed: Int32Array.of(7, 8) });
  });

  test('batches have a column of numbers, a list of texts, or two dimensions', async () => {
    const even = columns.filter((name) => !['ragged', 'words'].includes(name));
    const data = dataset([golden], { columns: even, fill: { text: '-' } }, unshuffled);
    const { items } = await read(data.batch(5));
    expect(items).toEqual((await read(data.map((row) => row).batch(5))).items);
    expect(items[0]).toMatchObject({
      yes: { values: Uint8Array.of(1, 0, 1, 1, 0), shape: [5] },
      tiny: { values: Float32Array.of(1, -2, 3, 4, 5), shape: [5] },
      text: ['a', 'ü', '-', '日本', ''],
      time: { values: Float32Array.from(millis), shape: [5] },
      vector: { values: Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), shape: [5, 2] },
      fixed: { values: Int32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), shape: [5, 2] },
    });
  });

  test('x and y select columns, several columns of numbers side by side, and the inputs of a model by name', async () => {
    const options = { x: { all: ['single', 'vector', 'yes'], other: 'fixed' }, y: 'tiny', sampleWeight: 'double' };
    const data = dataset([golden], options, unshuffled);
    const [batch] = (await read(data.batch(2))).items;
    expect(batch).toEqual({
      xs: {
        all: { values: Float32Array.of(1.5, 1, 2, 1, 2.5, 3, 4, 0), shape: [2, 4] },
        other: { values: Int32Array.of(1, 2, 3, 4), shape: [2, 2] },
      },
      ys: { values: Float32Array.of(1, -2), shape: [2] },
      sampleWeight: { values: Float32Array.of(0.1, 0.2), shape: [2] },
    });
    expect((await read(data.map((row) => row).batch(2))).items[0]).toEqual(batch);
  });

  test.each<readonly [string, DataFrameOptions, RegExp]>([
    ['an unknown column', { columns: ['price'] }, /^the feed train has no column price \(columns: yes, tiny, /],
    ['an unknown column in x', { x: ['single', 'price'], y: 'tiny' }, /^the feed train has no column price/],
    ['a nested column', { columns: ['place'] }, /^column place of the feed train has the type Struct<\{lat:Int64\}>, which/],
    ['a missing value', { columns: ['text'] }, /^feed train, partition 0: column text has no value; .*fill: \{ text: ... \}/],
    ['lists of different lengths', { columns: ['ragged'] }, /^field ragged of element 2 of the dataset has the shape \[2\]; in element 1/],
    [
      'text beside numbers',
      { x: ['single', 'text'], y: 'tiny', fill: { text: '-' } },
      /^column text contains the string .*, but only numbers can be/,
    ],
  ])('%s is an error', async (_, options, message) => {
    const data = dataset([golden], options, unshuffled);
    for (const each of [data.batch(5), data.map((row) => row).batch(5)]) {
      await expect(read(each)).rejects.toMatchObject({ code: 'DATA_INVALID', message: expect.stringMatching(message) });
    }
  });
});

test('an integer that a number cannot represent is an error', async () => {
  const data = dataset(await storedPieces([[{ id: BigInt64Array.of(1n, 2n ** 60n) }]]));
  for (const each of [data.batch(5), data]) {
    await expect(read<unknown>(each)).rejects.toMatchObject({
      message: expect.stringMatching(/^feed train, partition 0: the value 1152921504606846976 is/),
    });
  }
});

test('a damaged file is an error that names the feed and the partition', async () => {
  const folder = await folderWith();
  const file = path.join(folder, 'cut');
  const [whole] = await storedPieces(numbered([[100]]));
  await writeFile(file, (await readFile(whole?.path ?? '')).subarray(0, 1000));
  await expect(read(dataset([{ path: file, records: 100 }]))).rejects.toMatchObject({
    ...{ code: 'DATA_INVALID', message: 'feed train, partition 0: the file ends within a record batch' },
  });
});

test('an epoch that the source does not send is an error', async () => {
  const data = dataset(await storedPieces(numbered([[3]])), {}, { epochs: 2 });
  await expect(read(data, { epoch: 2 })).rejects.toMatchObject({
    ...{ code: 'USAGE', message: 'the program reads epoch 3 of the feed train, which has only 2 epochs' },
    hint: 'Pass epochs=3 or more to tony.spark.run, or read fewer epochs.',
  });
});

test.each<readonly [string, (data: Dataset<unknown>) => Dataset<unknown>]>([
  ['repeat', (data) => data.repeat(2)],
  ['take', (data) => data.take(2)],
  ['shard', (data) => data.shard({ index: 0, count: 2 })],
])('%s is refused, because a rank receives only its own records', async (_, change) => {
  await expect(read(change(dataset([golden])))).rejects.toMatchObject({
    ...{ code: 'USAGE', message: expect.stringMatching(/^each rank receives only its own records of the feed train/) },
  });
});

test.each<readonly [string, () => unknown, RegExp]>([
  ['x without y', () => fromDataFrame('train', { x: 'a' }), /needs both x and y/],
  ['columns with x', () => fromDataFrame('train', { columns: ['a'], x: 'a', y: 'b' }), /cannot be combined/],
  ['an invalid name', () => fromDataFrame('a b'), /not a valid feed name/],
])('fromDataFrame refuses %s', (_, create, message) => {
  expect(create).toThrow(message);
});

test('outside a job, reading fails with the next step', async () => {
  await expect(read(fromDataFrame('train'))).rejects.toMatchObject({ code: 'USAGE', message: 'the feed train can only be read in a job' });
});
