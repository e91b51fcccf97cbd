import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createStorage } from '../../../storage/create-storage.ts';
import { fileUri, joinUri } from '../../../storage/uri.ts';
import { writeTfRecords } from '../formats/tfrecord-writer.ts';
import { fromArray, jsonl, tfRecords, zip } from '../sources/sources.ts';

const storage = createStorage({ hadoop: null, user: 'alice' });
let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tony-ts-test-'));
});
afterAll(() => rm(folder, { recursive: true }));
const uri = (...names: string[]): string => joinUri(fileUri(folder), ...names);

test('the splits together contain the whole dataset in order, after map, filter, batch and prefetch', async () => {
  const text = Array.from({ length: 2000 }, (_, index) => JSON.stringify({ index }));
  await storage.write(uri('text', 'b.jsonl'), Buffer.from(text.slice(1200).join('\n')));
  await storage.write(uri('text', 'a.jsonl'), Buffer.from(`${text.slice(0, 1200).join('\n')}\n`));
  const all = jsonl<{ index: number }>(uri('text'), { splitBytes: 3000 });
  const { splits, fingerprint } = await all.splits({ storage });
  expect(fingerprint).toMatch(/^[0-9a-f]{16}$/);
  expect(splits.length).toBeGreaterThan(6);
  const names = splits.map(({ uri: file }) => file.slice(-7));
  expect(names).toEqual([...names].sort());
  const odd = all
    .map(({ index }) => index)
    .filter((index) => index % 2 === 1)
    .prefetch(10)
    .cache();
  expect(await odd.splits({ storage })).toEqual({ splits, fingerprint });
  const parts = await Promise.all(splits.map((_, split) => odd.toArray({ storage, split })));
  expect(parts.flat()).toEqual(Array.from({ length: 1000 }, (_, index) => 2 * index + 1));
  const batches = await Promise.all(splits.map((_, split) => odd.batch(7).toArray({ storage, split })));
  expect(batches.flat().flatMap(({ values }) => [...values])).toEqual(parts.flat());
  await expect(odd.toArray({ storage, split: splits.length })).rejects.toMatchObject({ code: 'DATA_INVALID' });
});

test('a file that cannot be divided is one split, even if it is empty', async () => {
  await writeTfRecords(storage, uri('records', 'a'), [Buffer.from('one'), Buffer.from('two')]);
  await writeTfRecords(storage, uri('records', 'b'), []);
  const records = tfRecords(uri('records'));
  expect((await records.splits({ storage })).splits.map(({ from, to }) => [from, to])).toEqual([
    [0, 38],
    [0, 0],
  ]);
  expect((await records.toArray({ storage, split: 0 })).map(String)).toEqual(['one', 'two']);
  expect(await records.toArray({ storage, split: 1 })).toEqual([]);
});

test('a dataset has no splits if an operation applies to the whole dataset or mixes datasets', async () => {
  await storage.write(uri('one.jsonl'), Buffer.from('1\n2\n'));
  const numbers = jsonl(uri('one.jsonl'));
  for (const dataset of [
    numbers.take(1),
    numbers.skip(1),
    numbers.shard({ index: 0, count: 2 }),
    numbers.repeat(2),
    numbers.shuffle(2),
    fromArray([1]),
    zip([numbers, numbers]),
    numbers.concatenate(numbers),
  ]) {
    await expect(dataset.splits({ storage })).rejects.toMatchObject({ code: 'DATA_INVALID' });
    await expect(dataset.toArray({ storage, split: 0 })).rejects.toMatchObject({ code: 'DATA_INVALID' });
  }
});
