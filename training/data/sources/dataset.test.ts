import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Column } from '../../../contract/encoding/idx.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { writeTfRecords } from '../formats/tfrecord-writer.ts';
import { folderWith, tfRecordFile } from '../testing/files.ts';
import type { Dataset } from './dataset.ts';
import {
  binaryFiles,
  csv,
  files,
  fromArray,
  fromGenerator,
  fromTfDataset,
  idx,
  jsonl,
  lines,
  sampleFrom,
  tfRecords,
  zip,
} from './sources.ts';

const storage = new FileStorage();
let cacheFolder: string;
beforeAll(async () => {
  cacheFolder = await mkdtemp(join(tmpdir(), 'datasets-cache-'));
});
afterAll(() => rm(cacheFolder, { recursive: true, force: true }));

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);

const kinds = fc.constantFrom<Kind>('tfrecord', 'tfrecord.gz', 'lines', 'jsonl', 'csv', 'idx', 'idx.gz', 'idx pairs');
type Kind = 'tfrecord' | 'tfrecord.gz' | 'lines' | 'jsonl' | 'csv' | 'idx' | 'idx.gz' | 'idx pairs';

async function recordFiles(counts: readonly number[]): Promise<string> {
  let next = 0;
  const content = counts.map((count, index) => {
    const records = Array.from({ length: count }, () => `${next++}`);
    return [`part-${String(index).padStart(3, '0')}`, tfRecordFile(records)] as const;
  });
  return `${await folderWith(Object.fromEntries(content))}/part-*`;
}

const step = fc.oneof(
  fc.constant({ name: 'map', make: (dataset: Dataset<number>) => dataset.map((value) => value + 0) }),
  fc.constant({ name: 'map in parallel', make: (dataset: Dataset<number>) => dataset.map(async (value) => value, { parallelCalls: 3 }) }),
  fc.integer({ min: 1, max: 50 }).map((size) => ({ name: `shuffle ${size}`, make: (dataset: Dataset<number>) => dataset.shuffle(size) })),
  fc.constant({ name: 'prefetch', make: (dataset: Dataset<number>) => dataset.prefetch(3) }),
  fc.constant({ name: 'cache', make: (dataset: Dataset<number>) => dataset.cache() }),
  fc.integer({ min: 1, max: 7 }).map((size) => ({
    name: `batch ${size}`,
    make: (dataset: Dataset<number>) => dataset.batch(size).flatMap((batch) => [...batch.values]),
  })),
  fc.constant({ name: 'cache on disk', make: (dataset: Dataset<number>) => dataset.cache({ disk: true, folder: cacheFolder }) }),
  fc.constant({ name: 'zip', make: (dataset: Dataset<number>) => zip([dataset, dataset]).map(([value]) => value) }),
  fc.nat(40).map((first) => ({
    name: `take and skip ${first}`,
    make: (dataset: Dataset<number>) => dataset.take(first).concatenate(dataset.skip(first)),
  })),
  fc.integer({ min: 1, max: 4 }).map((parts) => ({
    name: `shards ${parts}`,
    make: (dataset: Dataset<number>) => {
      const [first, ...others] = numbers(parts).map((index) => dataset.shard({ index, count: parts }));
      return (first as Dataset<number>).concatenate(...others);
    },
  })),
  fc.constant({
    name: 'sampleFrom',
    make: (dataset: Dataset<number>) =>
      sampleFrom([dataset.filter((value) => value % 4 === 0), dataset.filter((value) => value % 4 !== 0)], { weights: [1, 2] }),
  }),
  fc.constant({
    name: 'filter',
    make: (dataset: Dataset<number>) => dataset.filter((value) => value % 3 === 0).concatenate(dataset.filter((value) => value % 3 !== 0)),
  }),
  fc.record({ cycleLength: fc.integer({ min: 1, max: 5 }), blockLength: fc.integer({ min: 1, max: 3 }) }).map((options) => ({
    name: `interleave ${options.cycleLength} ${options.blockLength}`,
    make: (dataset: Dataset<number>) => dataset.batch(5).interleave(({ values }) => fromArray([...values]).map((value) => value), options),
  })),
);
const pipeline = fc.array(step, { maxLength: 3 });
const counts = fc.array(fc.nat(30), { minLength: 1, maxLength: 6 });

/** Creates files that together contain consecutive numbers, starting with 0. `counts` contains the number of records in each file. */
async function numberFiles(kind: Kind, counts: readonly number[]): Promise<string> {
  let next = 0;
  const folder = await folderWith();
  for (const [index, count] of counts.entries()) {
    const values = Array.from({ length: count }, () => next++);
    for (const [name, content] of Object.entries(fileOf(kind, values))) {
      await writeFile(
        join(folder, `${name}-${index}${kind.endsWith('.gz') ? '.gz' : ''}`),
        kind.endsWith('.gz') ? gzipSync(content) : content,
      );
    }
  }
  return folder;
}

function fileOf(kind: Kind, values: readonly number[]): Record<string, string | Buffer> {
  if (kind.startsWith('tfrecord')) {
    return { part: tfRecordFile(values.map(String)) };
  }
  if (kind === 'jsonl') {
    return { part: values.map((value) => `${JSON.stringify({ value })}\n`).join('') };
  }
  if (kind === 'csv') {
    return { part: `name,value\n${values.map((value) => `a,${value}\n`).join('')}` };
  }
  if (kind === 'lines') {
    return { part: values.map((value) => `${value}\n`).join('') };
  }
  const file = (width: number) => {
    const bytes = Buffer.alloc(4 + 8 + values.length * width * 4);
    bytes.set([0, 0, 12, 2]);
    bytes.writeUInt32BE(values.length, 4);
    bytes.writeUInt32BE(width, 8);
    for (const [row, value] of values.entries()) {
      bytes.fill(int32(value), 12 + row * width * 4, 12 + (row + 1) * width * 4);
    }
    return bytes;
  };
  return kind === 'idx pairs' ? { part: file(3), other: file(50) } : { part: file(3) };
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function openKind(kind: Kind, folder: string, splitBytes: number): Dataset<number> {
  const part = `${folder}/part-*`;
  const rowOf = (record: unknown) => {
    const { values } = record as Column;
    expect(new Set(values).size).toBe(1);
    return values[0] as number;
  };
  switch (kind) {
    case 'tfrecord':
    case 'tfrecord.gz':
      return tfRecords(part, { splitBytes }).map((record) => Number(record.toString()));
    case 'lines':
      return lines(part, { splitBytes }).map(Number);
    case 'jsonl':
      return jsonl<{ value: number }>(part, { splitBytes }).map(({ value }) => value);
    case 'csv':
      return csv<{ value: number }>(part, { splitBytes, isSplittable: true }).map(({ value }) => value);
    case 'idx':
    case 'idx.gz':
      return idx(part, { splitBytes }).map(rowOf);
    case 'idx pairs':
      return idx({ one: part, two: `${folder}/other-*` }, { splitBytes }).map(({ one, two }) => {
        expect(rowOf(two)).toBe(rowOf(one));
        return rowOf(one);
      });
  }
}

interface Description {
  readonly kind: Kind;
  readonly folder: string;
  readonly splitBytes: number;
  readonly steps: readonly { make(dataset: Dataset<number>): Dataset<number> }[];
}

function openPipeline({ kind, folder, splitBytes, steps }: Description): Dataset<number> {
  return steps.reduce((dataset, { make }) => make(dataset), openKind(kind, folder, splitBytes));
}

describe('any pipeline', () => {
  const files = fc.record({ kind: kinds, counts, splitBytes: fc.integer({ min: 10, max: 200 }), steps: pipeline });

  test('a pipeline distributes each record once over all ranks, in the same order each time', async () => {
    await fc.assert(
      fc.asyncProperty(files, fc.integer({ min: 1, max: 8 }), fc.nat(3), async ({ counts, ...rest }, ranks, epoch) => {
        const dataset = openPipeline({ ...rest, folder: await numberFiles(rest.kind, counts) });
        const total = counts.reduce((sum, count) => sum + count, 0);
        const read = () => Promise.all(numbers(ranks).map((index) => dataset.toArray({ storage, epoch, share: { index, count: ranks } })));
        const shares = await read();
        expect(shares.flat().sort((a, b) => a - b)).toEqual(numbers(total));
        expect(await read()).toEqual(shares);
      }),
      { numRuns: 20 },
    );
  });

  test('a pipeline resumes at any position, with exactly the remaining elements', async () => {
    await fc.assert(
      fc.asyncProperty(
        files,
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 3 }),
        fc.nat(200),
        async ({ counts, ...rest }, ranks, passes, stop) => {
          const description = { ...rest, folder: await numberFiles(rest.kind, counts) };
          const dataset = openPipeline(description).repeat(passes);
          const share = { index: ranks - 1, count: ranks };
          const all = await dataset.toArray({ storage, share });
          const reader = dataset.read({ storage, share });
          const taken: number[] = [];
          while (taken.length < stop) {
            const { done, value } = await reader.next();
            if (done) {
              break;
            }
            taken.push(value);
          }
          const state = JSON.parse(JSON.stringify(reader.state())) as Json;
          await reader.return();
          expect(reader.state()).toEqual(state);
          // A new dataset object has no cache, like a dataset in another process.
          const behind = await openPipeline(description).repeat(passes).toArray({ storage, state });
          expect([...taken, ...behind]).toEqual(all);
        },
      ),
      { numRuns: 20 },
    );
  });
});

describe('shuffle', () => {
  test('shuffle mixes all elements if they fit into its buffer, and otherwise mixes blocks that differ between epochs', async () => {
    const pattern = await recordFiles([100, 100, 100]);
    const read = (bufferSize: number, epoch: number, seed = 1) =>
      tfRecords(pattern)
        .shuffle(bufferSize)
        .map((record) => Number(record.toString()))
        .toArray({ storage, epoch, seed });
    const orders = await Promise.all([
      read(300, 0),
      read(300, 1),
      read(300, 0, 2),
      read(40, 0),
      read(40, 1),
      read(1, 0),
      read(1, 1),
      read(1, 2),
    ]);
    expect(new Set(orders.map(String)).size).toBe(orders.length);
    for (const order of orders) {
      expect([...order].sort((a, b) => a - b)).toEqual(numbers(300));
    }
    // The first third of the shuffled elements contains elements from all files.
    expect(new Set((orders[0] as number[]).slice(0, 100).map((value) => Math.floor(value / 100))).size).toBe(3);
    expect(
      (orders[5] as number[]).filter((value, index, all) => index > 0 && value !== (all[index - 1] as number) + 1).length,
    ).toBeLessThan(3);
  });

  test('shuffle places each element at every position with equal probability', async () => {
    const places = numbers(6).map(() => numbers(6).map(() => 0));
    const dataset = fromArray(numbers(6)).shuffle(6);
    for (let epoch = 0; epoch < 3000; epoch++) {
      (await dataset.toArray({ storage, epoch })).forEach((element, place) => {
        const row = places[element] as number[];
        row[place] = (row[place] as number) + 1;
      });
    }
    for (const count of places.flat()) {
      expect(Math.abs(count - 500)).toBeLessThan(120);
    }
  });

  test('a shuffled dataset has the same order in each epoch without reshuffling, and in each run with a seed', async () => {
    const read = (dataset: Dataset<number>, epoch: number, seed: number) => dataset.toArray({ storage, epoch, seed });
    const fixed = fromArray(numbers(50)).shuffle(50, null, false);
    expect(await read(fixed, 0, 1)).toEqual(await read(fixed, 1, 1));
    expect(await read(fixed, 0, 1)).not.toEqual(await read(fixed, 0, 2));
    const seeded = fromArray(numbers(50)).shuffle(50, 7);
    expect(await read(seeded, 0, 1)).toEqual(await read(seeded, 0, 2));
    expect(await read(seeded, 0, 1)).not.toEqual(await read(seeded, 1, 1));
  });
});

describe('take, skip and shard', () => {
  test('apply to the whole dataset, for any number of ranks', async () => {
    const pattern = await recordFiles([20, 20, 20]);
    const all = tfRecords(pattern).map((record) => Number(record.toString()));
    for (const ranks of [1, 2, 3, 5]) {
      const read = async (dataset: Dataset<number>) =>
        (await Promise.all(numbers(ranks).map((index) => dataset.toArray({ storage, share: { index, count: ranks } }))))
          .flat()
          .sort((a, b) => a - b);
      expect(await read(all.take(7))).toEqual(numbers(7));
      expect(await read(all.skip(50))).toEqual([50, 51, 52, 53, 54, 55, 56, 57, 58, 59]);
      expect(await read(all.shard({ index: 2, count: 6 }))).toEqual(numbers(10).map((index) => index * 6 + 2));
      expect(await read(all.take(0))).toEqual([]);
      expect(await read(all.skip(3).take(4).shard({ index: 1, count: 2 }))).toEqual([4, 6]);
    }
  });
});

describe('repeat', () => {
  test('repeat ends if the dataset is empty', async () => {
    expect(await fromArray<number>([]).repeat().toArray({ storage })).toEqual([]);
    expect(await fromArray([1]).repeat().take(3).toArray({ storage })).toEqual([1, 1, 1]);
  });
});

describe('map, filter, flatMap', () => {
  test('map, filter and flatMap keep the order, respect the limit of parallel calls, and pass errors on unchanged', async () => {
    let running = 0;
    let most = 0;
    const slow = fromArray(numbers(40)).map(
      async (value) => {
        running++;
        most = Math.max(most, running);
        await new Promise((resolve) => setTimeout(resolve, (value * 7) % 5));
        running--;
        return value;
      },
      { parallelCalls: 4 },
    );
    expect(
      await slow
        .filter(async (value) => value % 2 === 0)
        .flatMap((value) => [value, value])
        .toArray({ storage }),
    ).toEqual(numbers(20).flatMap((index) => [index * 2, index * 2]));
    expect(most).toBe(4);
    for (const parallelCalls of [1, 4]) {
      const failing = fromArray(numbers(40)).map(
        (value) => {
          if (value === 7) {
            throw new RangeError('seven');
          }
          return value;
        },
        { parallelCalls },
      );
      const seen: number[] = [];
      const loop = async () => {
        for await (const value of failing.read({ storage })) {
          seen.push(value);
        }
      };
      await expect(loop()).rejects.toThrow(RangeError);
      if (parallelCalls > 1) {
        expect(seen).toEqual(numbers(7));
      }
    }
  });
});

describe('batch', () => {
  test('makes columns of numbers and lists of strings or bytes', async () => {
    const elements = numbers(3).map((index) => ({
      scalar: index,
      flag: index === 1,
      pixels: Uint8Array.of(index, index + 1),
      rows: [[index], [index]],
      ids: { values: Int32Array.of(index, 0, 0, 1), shape: [2, 2] },
      text: `t${index}`,
      bytes: Buffer.from([index]),
    }));
    const [batch, last] = await fromArray(elements).batch(2).toArray({ storage });
    expect(batch).toEqual({
      scalar: { values: Float32Array.of(0, 1), shape: [2] },
      flag: { values: Uint8Array.of(0, 1), shape: [2] },
      pixels: { values: Uint8Array.of(0, 1, 1, 2), shape: [2, 2] },
      rows: { values: Float32Array.of(0, 0, 1, 1), shape: [2, 2, 1] },
      ids: { values: Int32Array.of(0, 0, 0, 1, 1, 0, 0, 1), shape: [2, 2, 2] },
      text: ['t0', 't1'],
      bytes: [Buffer.from([0]), Buffer.from([1])],
    });
    expect(last?.scalar).toEqual({ values: Float32Array.of(2), shape: [1] });
    expect(await fromArray(elements).batch(2, { dropRemainder: true }).toArray({ storage })).toHaveLength(1);
  });

  test.each([
    [[{ a: { b: 1 } }, { a: { b: 'x' } }], 'field a.b of element 2 of the dataset is the string x; in element 1, it is the number 1'],
    [[{ a: [1] }, { a: [1, 2] }], 'field a of element 2 of the dataset has the shape [2]; in element 1, it has the shape [1]'],
    [[{ a: 1 }, { a: 1, b: 2 }], 'element 2 of the dataset has the fields a,b; in element 1, it has the fields a'],
    [
      [{ a: [[1], [2, 3]] }],
      'field a of element 1 of the dataset is an array whose items are not numbers, or not rows of numbers with the same length',
    ],
  ])('rejects %j', async (elements, message) => {
    await expect(fromArray<unknown>(elements).batch(2).toArray({ storage })).rejects.toMatchObject({ code: 'DATA_INVALID', message });
  });
});

describe('prefetch', () => {
  test('prefetch reads ahead up to its limit of elements', async () => {
    let made = 0;
    const source = fromGenerator(function* () {
      for (;;) {
        yield made++;
      }
    });
    const reader = source.batch(1).prefetch(5).read({ storage });
    await reader.next();
    await expect.poll(() => made).toBeGreaterThan(250);
    // The generator yields chunks of 256 elements. One taken and five prefetched batches fit into the first chunk.
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(made).toBeLessThan(520);
    await reader.return();
  });

  test('prefetch reads ahead up to its limit of bytes', async () => {
    const pattern = await folderWith({ a: tfRecordFile(numbers(100).map(() => Buffer.alloc(100_000))) });
    let mapped = 0;
    const counted = tfRecords(pattern).map((record) => {
      mapped++;
      return record;
    });
    const reader = counted.prefetch(1000, { bytes: 1_000_000 }).read({ storage });
    await reader.next();
    await expect.poll(() => mapped).toBeGreaterThan(8);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(mapped).toBeLessThan(18);
    await reader.return();
  });
});

/** A storage that counts its open streams. Each stream fails with a connection error after a number of bytes. */
class TroubledStorage extends FileStorage {
  open_ = 0;
  opened = 0;
  #breakAfter: number;

  constructor(breakAfter = Number.POSITIVE_INFINITY) {
    super();
    this.#breakAfter = breakAfter;
  }

  override async open(uri: string, range?: { offset?: number; length?: number }): Promise<Readable> {
    const inner = await super.open(uri, range);
    this.open_++;
    this.opened++;
    const breakAfter = this.#breakAfter;
    const broken = async function* () {
      let bytes = 0;
      for await (const chunk of inner as AsyncIterable<Buffer>) {
        yield chunk.subarray(0, breakAfter - bytes);
        bytes += chunk.length;
        if (bytes >= breakAfter) {
          throw new TonyError('HDFS_UNREACHABLE', 'the connection broke');
        }
      }
    };
    return Readable.from(broken(), { objectMode: false, highWaterMark: 1024 }).once('close', () => {
      inner.destroy();
      this.open_--;
    });
  }
}

describe('reading from storage', () => {
  const content = tfRecordFile(numbers(3000).map((index) => `record ${index}`.padEnd(500)));

  test('a reader continues at the current position after each lost connection', async () => {
    const folder = await folderWith({ a: content });
    const troubled = new TroubledStorage(600_000);
    const records = await tfRecords(folder).map(String).toArray({ storage: troubled });
    expect(records.map((record) => record.trim())).toEqual(numbers(3000).map((index) => `record ${index}`));
    expect(troubled.opened).toBe(3);
    expect(troubled.open_).toBe(0);
  });

  test('a reader leaves no stream open, whether the loop is left, aborted or fails', async () => {
    const folder = await folderWith({ a: content, b: content, c: content });
    const troubled = new TroubledStorage();
    const dataset = tfRecords(folder).map(String);
    const variants = [
      dataset,
      dataset.shuffle(10).batch(4),
      dataset.prefetch(2),
      dataset.map(async (text) => text, { parallelCalls: 3 }),
      dataset.cache(),
    ];
    for (const variant of variants) {
      for await (const _ of variant.read({ storage: troubled })) {
        break;
      }
      await expect.poll(() => troubled.open_).toBe(0);
      const controller = new AbortController();
      const loop = async () => {
        for await (const _ of variant.read({ storage: troubled, signal: controller.signal })) {
          controller.abort(new Error('enough'));
        }
      };
      await expect(loop()).rejects.toThrow('enough');
      await expect.poll(() => troubled.open_).toBe(0);
      const failing = variant.map(() => {
        throw new Error('no');
      });
      await expect(failing.toArray({ storage: troubled })).rejects.toThrow('no');
      await expect.poll(() => troubled.open_).toBe(0);
    }
  });

  test('a reader rejects a state whose files differ from the current ones', async () => {
    const folder = await folderWith({ a: content });
    const reader = tfRecords(folder).read({ storage });
    await reader.next();
    await writeFile(join(folder, 'b'), content);
    await expect(tfRecords(folder).toArray({ storage, state: reader.state() })).rejects.toMatchObject({
      code: 'DATA_INVALID',
      message: expect.stringContaining('have changed since the checkpoint'),
    });
    await reader.return();
  });
});

describe('files', () => {
  test('files are selected by patterns, folders and lists, without hidden files', async () => {
    const folder = await folderWith({ 'part-0': 'a', 'part-1': 'b', 'other-1': 'c', _SUCCESS: '', '.part-0.crc': 'x', 'odd [1]?': 'd' });
    const names = async (patterns: string | string[]) =>
      (await files(patterns).toArray({ storage })).map(({ uri }) => decodeURIComponent(uri.slice(uri.lastIndexOf('/') + 1)));
    expect(await names(`${folder}/part-*`)).toEqual(['part-0', 'part-1']);
    expect(await names(`file://${folder}/part-[1-9]`)).toEqual(['part-1']);
    expect(await names(`${folder}/{part,other}-1`)).toEqual(['other-1', 'part-1']);
    expect(await names(folder)).toEqual(['odd [1]?', 'other-1', 'part-0', 'part-1']);
    expect(await names([`${folder}/part-0`, `${folder}/part-?`])).toEqual(['part-0', 'part-1']);
    expect(await names(`${folder}/odd \\[1\\]\\?`)).toEqual(['odd [1]?']);
    expect(await names(`${folder.slice(0, -3)}*/_S*`)).toEqual(['_SUCCESS']);
    await expect(names(`${folder}/none-*`)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('binaryFiles reads whole files', async () => {
    const folder = await folderWith(Object.fromEntries(numbers(30).map((index) => [`f${10 + index}`, `content ${index}`])));
    const contents = await binaryFiles(folder).toArray({ storage });
    expect(contents.map(({ bytes }) => bytes.toString())).toEqual(numbers(30).map((index) => `content ${index}`));
    await expect(binaryFiles(folder, { maxRecordBytes: 3 }).toArray({ storage })).rejects.toMatchObject({ code: 'DATA_INVALID' });
  });
});

describe('cache', () => {
  test.each([false, true])('a cache reads its source only once (on disk: %s)', async (disk) => {
    const folder = await folderWith();
    let made = 0;
    const dataset = fromGenerator(function* () {
      for (const value of numbers(1000)) {
        made++;
        yield { value, bytes: Buffer.from([value & 255]), numbers: Float32Array.of(value) };
      }
    })
      .cache({ disk, folder })
      .shuffle(100);
    const [first, second] = [await dataset.toArray({ storage, epoch: 0 }), await dataset.toArray({ storage, epoch: 1 })];
    expect(made).toBe(1000);
    expect(second).not.toEqual(first);
    expect(second.sort((a, b) => a.value - b.value)).toEqual(first.sort((a, b) => a.value - b.value));
  });

  test('a cache is removed by the next program in the same folder if its own program was killed', async () => {
    const folder = await folderWith();
    const { pid } = spawnSync('true');
    const [left, living] = [join(folder, `.tony-ts-dataset-${pid}-abcdef`), join(folder, `.tony-ts-dataset-${process.ppid}-abcdef`)];
    for (const place of [left, living]) {
      await mkdir(place);
    }
    await fromArray([1, 2]).cache({ disk: true, folder }).toArray({ storage });
    const names = await readdir(folder);
    expect(names).toHaveLength(2);
    expect(names).toContain(`.tony-ts-dataset-${process.ppid}-abcdef`);
  });

  test('a cache is replaced by its source if the cache is damaged or exceeds maxBytes', async () => {
    const folder = await folderWith();
    const pattern = await recordFiles([500, 500]);
    const dataset = tfRecords(pattern).map(String).cache({ disk: true, folder });
    const all = await dataset.toArray({ storage });
    const [cache] = await readdir(folder);
    await truncate(join(folder, cache as string, 'elements'), 1000);
    const notices: string[] = [];
    expect(await dataset.toArray({ storage, onNotice: (message) => notices.push(message) })).toEqual(all);
    expect(notices).toEqual([expect.stringContaining('cannot be read')]);
    expect(await readdir(folder)).toEqual([]);
    const small = tfRecords(pattern).map(String).cache({ disk: true, folder, maxBytes: 3000 });
    expect(await small.toArray({ storage, onNotice: (message) => notices.push(message) })).toEqual(all);
    expect(await small.toArray({ storage })).toEqual(all);
    expect(notices[1]).toMatch(/maxBytes/);
    expect(await readdir(folder)).toEqual([]);
  });
});

describe('the TFRecord writer', () => {
  test('writes all shards with numbered names, or none', async () => {
    const folder = await folderWith();
    const records = numbers(1000).map((index) => Buffer.from(`record ${index}`));
    const { uris } = await writeTfRecords(storage, `file://${folder}/train`, records, { shards: 3, compression: 'gzip' });
    expect(uris[2]).toBe(`file://${folder}/train-00002-of-00003`);
    const read = await tfRecords(uris, { compression: 'gzip' }).map(String).toArray({ storage });
    expect(read.sort()).toEqual(records.map(String).sort());
    const failing = async function* () {
      yield* records;
      throw new Error('no more');
    };
    await expect(writeTfRecords(storage, `file://${folder}/other`, failing(), { shards: 2 })).rejects.toThrow('no more');
    expect((await readdir(folder)).filter((name) => name.startsWith('other'))).toEqual([]);
    await expect(writeTfRecords(storage, `${uris[0]}/below-a-file`, records)).rejects.toBeInstanceOf(TonyError);
  });
});

describe('tf.data', () => {
  test('converts datasets in both directions without leaking tensors', async () => {
    const before = tf.memory().numTensors;
    const batches = fromArray(numbers(5).map((value) => ({ xs: [value], ys: value * 2 })))
      .batch(2)
      .toTfDataset(tf, { storage });
    const back = fromTfDataset<{ xs: tf.Tensor; ys: tf.Tensor }>(batches);
    const seen: number[] = [];
    for await (const { xs, ys } of back.read({ storage, share: { index: 1, count: 2 } })) {
      seen.push(...ys.dataSync());
      tf.dispose([xs, ys]);
    }
    expect(seen).toEqual([4, 6]);
    const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1], kernelInitializer: 'zeros', useBias: false })] });
    model.compile({ optimizer: tf.train.sgd(0.05), loss: 'meanSquaredError' });
    await model.fitDataset(batches, { epochs: 30, verbose: 0 });
    expect(model.getWeights()[0]?.dataSync()[0]).toBeCloseTo(2, 1);
    tf.dispose(model.getWeights());
    model.optimizer.dispose();
    expect(tf.memory().numTensors - before).toBeLessThan(3);
  });
});

test('like fitDataset, fromTfDataset uses an element that a generator returns together with `done`', async () => {
  let next = 0;
  const generator = () => ({ next: () => ({ value: next++, done: next === 3 }) }) as unknown as Iterator<number>;
  const seen: number[] = [];
  for await (const value of fromTfDataset<number>(tf.data.generator(generator)).read({ storage })) {
    seen.push(value);
  }
  expect(seen).toEqual([0, 1, 2]);
});

describe('invalid options', () => {
  test('invalid options are rejected', () => {
    expect(() => fromArray([1]).batch(0)).toThrow('batch size is 0');
    expect(() => fromArray([1]).shuffle(1.5)).toThrow('bufferSize is 1.5');
    expect(() => fromArray([1]).shard({ index: 2, count: 2 })).toThrow('no shard 2: the shards are numbered from 0 to 1');
    expect(() => csv('x', { delimiter: '::' })).toThrow('delimiter');
    expect(() => lines('x').read({ share: { index: 3, count: 2 } })).toThrow('no share 3: the shares are numbered from 0 to 1');
  });
});

test.each([
  ['batch', () => fromArray([1]).batch(0), 'batch size is 0, but must be a whole number of at least 1'],
  ['batch with text', () => fromArray([1]).batch('8' as unknown as number), 'batch size is "8", but must be'],
  ['shuffle', () => fromArray([1]).shuffle(-1), 'bufferSize is -1'],
  ['take', () => fromArray([1]).take(-1), 'take is -1'],
  ['map', () => fromArray([1]).map(undefined as unknown as () => number), 'map received undefined instead of a function'],
  ['filter', () => fromArray([1]).filter(5 as unknown as () => boolean), 'filter received the number 5 instead of a function'],
])('a wrong argument of %s is a USAGE error', (_, call, message) => {
  expect(call).toThrow(expect.objectContaining({ code: 'USAGE', message: expect.stringContaining(message) }));
});
