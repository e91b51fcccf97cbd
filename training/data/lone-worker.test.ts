import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '../../platform/json-value.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { lonePeers } from '../ring/peers.ts';
import { DatasetBatchSource } from './dataset-batch-source.ts';
import { joinPositions } from './reading/dataset-position.ts';
import { LocalSplits } from './reading/split-assigner.ts';
import type { Dataset } from './sources/dataset.ts';
import { fromArray } from './sources/sources.ts';

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);
const storage = new FileStorage();

const dataset = (examples: number) =>
  fromArray(numbers(examples).map((value) => ({ xs: [value], ys: 0 })))
    .shuffle(7)
    .batch(3);

function feedOf(data: Dataset<unknown>, rank: number, worldSize: number, position: Json): DatasetBatchSource {
  return new DatasetBatchSource(data, {
    ...{ tf, storage, seed: 1, position, onNotice: () => {} },
    peers: lonePeers(rank, worldSize),
    splits: new LocalSplits().reader(),
    names: { inputs: ['x'], outputs: ['y'] },
  });
}

async function take(feed: DatasetBatchSource, steps: number): Promise<{ seen: number[]; ended: boolean }> {
  const seen: number[] = [];
  for (let step = 0; step < steps; step++) {
    const { batch, used, weight, ended, release } = await feed.next();
    const own = batch === null ? [] : tf.tidy(() => [...(batch().x[0] as tf.Tensor).dataSync()]);
    release();
    expect(own).toHaveLength(used);
    expect(weight).toBe(used === 0 ? 0 : 1);
    seen.push(...own);
    if (ended) {
      return { seen, ended };
    }
  }
  return { seen, ended: false };
}

test('workers that step independently use each example of a pass once, regardless of their speeds', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 4 }), async (examples, worldSize) => {
      const feeds = numbers(worldSize).map((rank) => feedOf(dataset(examples), rank, worldSize, null));
      for (const rank of numbers(worldSize).reverse()) {
        // The second pass of one worker does not affect the other workers.
        const passes = rank === 0 ? 1 : 2;
        for (let pass = 0; pass < passes; pass++) {
          expect((await take(feeds[rank] as DatasetBatchSource, 1000)).ended).toBe(true);
        }
      }
      const seen = await Promise.all(
        numbers(worldSize).map(async (rank) => (await take(feedOf(dataset(examples), rank, worldSize, null), 1000)).seen),
      );
      expect(seen.flat().sort((a, b) => a - b)).toEqual(numbers(examples));
      await Promise.all(feeds.map((feed) => feed.close()));
    }),
    { numRuns: 15 },
  );
});

test('any number of workers resumes from the joined positions with exactly the unused examples', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 6 }), { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 12, max: 50 }),
      async (steps, later, examples) => {
        const worldSize = steps.length;
        const feeds = steps.map((_, rank) => feedOf(dataset(examples), rank, worldSize, null));
        const used = await Promise.all(feeds.map(async (feed, rank) => await take(feed, steps[rank] as number)));
        // `joinPositions` uses the first worker's pass, so the first worker must still be within that pass.
        fc.pre(!used[0]?.ended);
        const [first, ...others] = await Promise.all(feeds.map((feed) => feed.position()));
        const joined = joinPositions(first, others) as Json;
        await Promise.all(feeds.map((feed) => feed.close()));
        const rest = await Promise.all(
          numbers(later).map(async (rank) => {
            const feed = feedOf(dataset(examples), rank, later, joined);
            const { seen } = await take(feed, 1000);
            await feed.close();
            return seen;
          }),
        );
        const all = [...used.flatMap(({ seen }) => seen), ...rest.flat()];
        expect(all.sort((a, b) => a - b)).toEqual(numbers(examples));
      },
    ),
    { numRuns: 30 },
  );
});
