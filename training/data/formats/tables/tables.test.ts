import { readFile } from 'node:fs/promises';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Column } from '../../../../contract/encoding/idx.ts';
import { FileStorage } from '../../../../storage/file-storage.ts';
import type { Storage } from '../../../../storage/storage.ts';
import type { Dataset } from '../../sources/dataset.ts';
import { avro, parquet } from '../../sources/sources.ts';
import { folderWith } from '../../testing/files.ts';
import type { TableRow } from './table-values.ts';

const GOLDEN = path.join(import.meta.dirname, '..', '..', 'golden', 'tables');
const storage = new FileStorage();
const NAMES = ['id', 'small', 'ratio', 'exact', 'flag', 'name', 'raw', 'features', 'tokens', 'words', 'maybe', 'day', 'nested'];
const PARQUET = ['none', 'snappy', 'gzip', 'zstd', 'lz4', 'brotli'].map((codec) => `${codec}.parquet`);
const AVRO = ['null', 'deflate', 'snappy', 'zstandard'].map((codec) => `${codec}.avro`);
const ROWS = 60;
/** Changes that once caused an error without a code, errors of several reads, or a reading without end. */
const DAMAGES: Readonly<Record<string, [at: number, change: number][]>> = {
  'gzip.parquet': [[9_240, 1]],
  'zstd.parquet': [
    [6_189, 59],
    [215, 128],
  ],
};

type Options = Parameters<typeof parquet>[1] & Parameters<typeof avro>[1];

function open(file: string, options: Options = {}): Dataset<TableRow> {
  return file.endsWith('.avro') ? avro(file, options) : parquet(file, options);
}

/** The rows as pyarrow and fastavro have read them. */
async function expectedRows(): Promise<Record<string, unknown>[]> {
  const rows = JSON.parse(await readFile(path.join(GOLDEN, 'expected.json'), 'utf8')) as Record<string, unknown>[];
  return rows.map((row) => ({
    ...row,
    raw: Buffer.from((row.raw as { bytes: number[] }).bytes),
    features: Float32Array.from(row.features as number[]),
    tokens: Int32Array.from(row.tokens as number[]),
    maybe: row.maybe ?? -1,
  }));
}

async function idsOf(dataset: Dataset<TableRow>, options: Parameters<Dataset<TableRow>['toArray']>[0] = {}): Promise<unknown[]> {
  return (await dataset.toArray({ storage, ...options })).map(({ id }) => id);
}

const ALL_IDS = Array.from({ length: ROWS }, (_, index) => index * 1_000_003 - 5_000_000);

describe.each([...PARQUET, ...AVRO])('%s', (name) => {
  const file = path.join(GOLDEN, name);

  test('contains the rows that pyarrow and fastavro read', async () => {
    expect(await open(file, { columns: NAMES, fill: { maybe: -1 } }).toArray({ storage })).toEqual(await expectedRows());
  });

  test('causes an error or yields other rows if a byte is damaged, but never hangs, crashes or exhausts the memory', async () => {
    const good = await readFile(file);
    const folder = await folderWith({ [name]: good });
    await fc.assert(
      fc.asyncProperty(fc.nat(good.length - 1), fc.integer({ min: 1, max: 255 }), async (at, change) => {
        const bad = Buffer.from(good);
        bad[at] = (bad[at] as number) ^ change;
        await storage.write(`file://${folder}/${name}`, bad);
        const outcome = await open(path.join(folder, name), { fill: { maybe: -1 }, columns: NAMES })
          .toArray({ storage })
          .then(
            () => null,
            (error: { code?: string; message: string }) => error,
          );
        if (outcome !== null) {
          expect(outcome).toMatchObject({ code: 'DATA_INVALID', message: expect.stringContaining(`${folder}/${name}`) });
        }
      }),
      { numRuns: 40, examples: DAMAGES[name] ?? [] },
    );
  });
});

describe.each(['snappy.parquet', 'null.avro'])('%s', (name) => {
  const file = path.join(GOLDEN, name);

  test('a table is split so that each reader gets its share, and each row is in one split', async () => {
    const dataset = open(file, { columns: ['id'], splitBytes: 1000 });
    const { splits } = await dataset.splits({ storage });
    expect(splits.length).toBeGreaterThan(2);
    const bySplit = await Promise.all(splits.map((_, split) => idsOf(dataset, { split })));
    expect(bySplit.flat()).toEqual(ALL_IDS);
    const shares = await Promise.all([0, 1, 2].map((index) => idsOf(dataset, { share: { index, count: 3 } })));
    for (const share of shares) {
      expect(share.length).toBeGreaterThan(0);
    }
    expect(shares.flat().toSorted((a, b) => Number(a) - Number(b))).toEqual(ALL_IDS);
  });

  test('continues exactly at any position', async () => {
    const dataset = open(file, { columns: ['id'], splitBytes: 3000 });
    await fc.assert(
      fc.asyncProperty(fc.nat(ROWS), async (count) => {
        const reader = dataset.read({ storage });
        for (let taken = 0; taken < count; taken++) {
          await reader.next();
        }
        const state = JSON.parse(JSON.stringify(reader.state()));
        await reader.return?.();
        expect(await idsOf(dataset, { state })).toEqual(ALL_IDS.slice(count));
      }),
      { numRuns: 30 },
    );
  });

  test('batches numbers and lists to columns', async () => {
    const [batch] = await open(file, { columns: ['ratio', 'features', 'tokens', 'name'] })
      .batch(4)
      .toArray({ storage });
    const {
      ratio,
      features,
      tokens,
      name: names,
    } = batch as unknown as Record<'ratio' | 'features' | 'tokens', Column> & { name: string[] };
    expect([ratio.shape, features.shape, tokens.shape]).toEqual([[4], [4, 3], [4, 2]]);
    expect([...ratio.values]).toEqual([0, 0.125, 0.25, 0.375]);
    expect(tokens.values).toEqual(Int32Array.of(0, 0, 1, -1, 2, -2, 3, -3));
    expect(names).toEqual(['name 0 é', 'name 1 é', 'name 2 é', 'name 3 é']);
  });

  test('batches are those of the rows, and reading continues at any of them', async () => {
    const columns = NAMES.filter((column) => column !== 'words' && column !== 'nested');
    const dataset = open(file, { columns, fill: { maybe: -1 }, splitBytes: 3000 });
    const ofObjects: unknown[] = await dataset
      .map((row) => row)
      .batch(7)
      .toArray({ storage });
    const reader = dataset.batch(7).read({ storage });
    for (const [index, batch] of ofObjects.entries()) {
      const state = JSON.parse(JSON.stringify(reader.state()));
      expect(await dataset.batch(7).toArray({ storage, state })).toEqual(ofObjects.slice(index));
      expect((await reader.next()).value).toEqual(batch);
    }
    expect(await reader.next()).toEqual({ done: true, value: undefined });
  });

  test.each([
    [{ columns: ['nmae'] }, /has no column nmae \(columns: id, small/],
    [{ columns: ['id'], fill: { mabe: 0 } }, /has no column mabe/],
    [{}, /column unused has the type MAP/i],
    [{ columns: ['id', 'maybe'] }, /column maybe has no value.*fill: \{ maybe: \.\.\. \}/],
    [{ columns: ['id'], ...(file.endsWith('.avro') ? { maxRecordBytes: 10 } : { maxGroupBytes: 100 }) }, /maximum is 100?\b/],
  ])('reading with %j causes an error that names the column or the limit', async (options, message) => {
    await expect(open(file, options).toArray({ storage })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringMatching(message),
    });
  });
});

test('of a Parquet file, only the footer and the chunks of the selected columns are read', async () => {
  const file = path.join(GOLDEN, 'none.parquet');
  const read = async (columns: readonly string[]): Promise<number> => {
    let bytes = 0;
    const counting = new Proxy(storage, {
      get: (target, name) =>
        name === 'open'
          ? async (uri: string, range: { length: number }) => {
              bytes += range.length;
              return await target.open(uri, range);
            }
          : Reflect.get(target, name).bind(target),
    }) as Storage;
    await parquet(file, { columns }).toArray({ storage: counting });
    return bytes;
  };
  const { size } = (await storage.stat(`file://${file}`)) ?? { size: 0 };
  // The whole file is smaller than the first read of the footer; the rest are chunks.
  const [one, two] = [(await read(['id'])) - size, (await read(['id', 'name'])) - size];
  expect(one).toBeGreaterThan(ROWS * 8);
  expect(one).toBeLessThan(ROWS * 8 + 300);
  expect(two).toBeGreaterThan(one);
  expect(two).toBeLessThan(one + 700);
});

test.each([
  ['text.parquet', 'not a table', /does not end with PAR1/],
  ['text.avro', 'not a table', /does not begin with "Obj"/],
  ['empty.parquet', '', /does not end with PAR1/],
  ['empty.avro', '', /does not begin with "Obj"/],
])('%s is rejected, and the error states the reason', async (name, content, message) => {
  const folder = await folderWith({ [name]: content });
  await expect(open(path.join(folder, name)).toArray({ storage })).rejects.toMatchObject({
    code: 'DATA_INVALID',
    message: expect.stringMatching(message),
  });
});
