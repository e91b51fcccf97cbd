import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import type { Json } from '../../../platform/json-value.ts';
import { lonePeers, type Peers } from '../../ring/peers.ts';
import { DatasetBatchSource } from '../dataset-batch-source.ts';
import { FakePieces, FakeStream, storedPieces } from '../frames/testing/pieces.ts';
import { frameDataset } from '../sources/frame-source.ts';

const peers: Peers = { ...lonePeers(0, 1), stepsTogether: true };
const storedAt = async () => {};

/** The micro-batches 2 and 4 with 5 rows each, whose IDs are 20 to 24 and 40 to 44. */
async function stream({ query = 'q', partitions = 1 } = {}): Promise<FakeStream> {
  const batches = [2, 4].map(async (number) => {
    const ids = Int32Array.from({ length: 5 }, (_, row) => 10 * number + row);
    return { query, number, pieces: new FakePieces(await storedPieces([[{ id: ids }]]), { seed: null, partitions }) };
  });
  return new FakeStream(await Promise.all(batches));
}

function batchSource(source: FakeStream, position: Json = null, own: Partial<Peers> = {}): DatasetBatchSource {
  const countExamples = (element: unknown) => (element as { id: { shape: number[] } }).id.shape[0] as number;
  const dataset = frameDataset('train', source, {}).batch(2);
  return new DatasetBatchSource(dataset, { tf, peers: { ...peers, ...own }, seed: 1, countExamples, position, onNotice: () => {} });
}

async function take(source: DatasetBatchSource, batches: number): Promise<number[]> {
  const ids: number[] = [];
  for (let batch = 0; batch < batches; batch++) {
    const { element } = await source.take();
    ids.push(...(element as { id: { values: Int32Array } }).id.values);
  }
  return ids;
}

test('each pass reads a micro-batch, and the next one only after a checkpoint of the last one is stored', async () => {
  const fake = await stream();
  const source = batchSource(fake);
  expect(await source.begin(() => Promise.reject(new Error('there is nothing to store yet')))).toBe(true);
  expect(await take(source, 3)).toEqual([20, 21, 22, 23, 24]);
  expect(source.needsCheckpoint).toBe(true);
  expect(await source.position()).toMatchObject({ pass: 1, stream: { query: 'q', number: 3, partitions: null } });
  expect(source.needsCheckpoint).toBe(false);
  let isStored = false;
  const begun = source.begin(async () => {
    expect(fake.questions).toHaveLength(1);
    isStored = true;
  });
  expect(await begun).toBe(true);
  expect(isStored).toBe(true);
  expect(await take(source, 3)).toEqual([40, 41, 42, 43, 44]);
  await source.position();
  expect(await source.begin(storedAt)).toBe(false);
  expect(fake.questions).toEqual([
    { query: null, next: 0, saved: 0 },
    { query: 'q', next: 3, saved: 3 },
    { query: 'q', next: 5, saved: 5 },
  ]);
});

test('a rank that does not write checkpoints does not tell that one is stored', async () => {
  const fake = await stream();
  const source = batchSource(fake, null, { rank: 1, worldSize: 2 });
  await source.begin(storedAt);
  await take(source, 3);
  await source.position();
  await source.begin(storedAt);
  expect(fake.questions[1]).toEqual({ query: 'q', next: 3, saved: 2 });
  await source.close();
});

test('training fails if it goes on without a checkpoint of the last micro-batch', async () => {
  const source = batchSource(await stream());
  await source.begin(storedAt);
  await take(source, 3);
  await expect(source.begin(storedAt)).rejects.toThrow(
    'all records of micro-batch 2 of the stream train have been read, but no checkpoint',
  );
});

test('a reader resumes within a micro-batch, if it is still the same one', async () => {
  const first = batchSource(await stream());
  await first.begin(storedAt);
  await take(first, 1);
  const position = await first.position();
  await first.close();
  const fake = await stream();
  const second = batchSource(fake, position);
  await second.begin(storedAt);
  expect(await take(second, 2)).toEqual([22, 23, 24]);
  expect(fake.questions).toEqual([{ query: 'q', next: 2, saved: 2 }]);
  const skipped = { ...(position as object), stream: { query: 'q', number: 3, partitions: 1 } };
  for (const [given, at, message] of [
    [await stream({ query: 'other' }), position, 'ends within micro-batch 2 of another query'],
    [await stream({ partitions: 3 }), position, 'had 1 partitions, but now has 3'],
    [await stream(), skipped, 'ends within micro-batch 3 of the stream train, but Spark continues with 4'],
  ] as const) {
    await expect(batchSource(given, at).begin(storedAt)).rejects.toThrow(message);
  }
});

test('a stream can only be read once in a dataset, and only as training data', async () => {
  const fake = await stream();
  const twice = frameDataset('train', fake, {})
    .concatenate(frameDataset('train', fake, {}))
    .batch(2);
  const source = new DatasetBatchSource(twice, { tf, peers, seed: 1, countExamples: () => 2, position: null, onNotice: () => {} });
  await source.begin(storedAt);
  await expect(take(source, 3)).rejects.toThrow('a dataset can contain only one stream of Spark');
  await expect(frameDataset('train', fake, {}).toArray()).rejects.toThrow('can only be the training data of fit or cluster.loop');
});
