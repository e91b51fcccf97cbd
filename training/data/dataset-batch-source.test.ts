import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import type { Json } from '../../platform/json-value.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { Phases } from '../checkpoint/phases.ts';
import { fit as fitModel } from '../fit/fit.ts';
import type { FitOptions } from '../fit/fit-options.ts';
import { peersOfRing } from '../ring/peers.ts';
import type { Ring } from '../ring/ring.ts';
import { allReduceStrategy } from '../strategy/all-reduce/all-reduce-strategy.ts';
import { joinRing } from '../testing/join-ring.ts';
import { DatasetBatchSource, sharesOfRank } from './dataset-batch-source.ts';
import type { FitData } from './fit-data.ts';
import { encodeExample } from './formats/example.ts';
import { fixedLenFeature, parseExample } from './formats/parse-example.ts';
import { LocalSplits, type SplitAssigner } from './reading/split-assigner.ts';
import type { Dataset } from './sources/dataset.ts';
import { csv, fromArray, fromTfDataset, tfRecords } from './sources/sources.ts';
import { folderWith, tfRecordFile } from './testing/files.ts';

const storage = new FileStorage();
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);

async function withRings<R>(worldSize: number, work: (rings: Ring[]) => Promise<R>): Promise<R> {
  const rings = await joinRing(worldSize);
  try {
    return await work(rings);
  } finally {
    for (const ring of rings) {
      ring.close();
    }
  }
}

async function recordFiles(counts: readonly number[]): Promise<Dataset<{ xs: number[]; ys: number }>> {
  let next = 0;
  const files = counts.map((count, index) => [`part-${index}`, tfRecordFile(numbers(count).map(() => `${next++}`))] as const);
  const folder = await folderWith(Object.fromEntries(files));
  return tfRecords(folder).map((record) => ({ xs: [Number(record.toString())], ys: 0 }));
}

interface Epoch {
  readonly seen: number[];
  readonly steps: number;
}

async function run(
  dataset: Dataset<unknown>,
  worldSize: number,
  position: Json,
  stopAfter: number,
  /** The number of steps to take after the returned position. Their results are lost, as if the program had failed after a checkpoint. */
  lost = 0,
): Promise<Epoch & { position: Json; ended: boolean }> {
  return await withRings(worldSize, async (rings) => {
    const splits = new LocalSplits();
    const results = await Promise.all(
      rings.map(async (ring) => {
        const names = { inputs: ['x'], outputs: ['y'] };
        const feed = new DatasetBatchSource(dataset, {
          tf,
          peers: peersOfRing(ring),
          storage,
          splits: splits.reader(),
          seed: 1,
          names,
          position,
          onNotice: () => {},
        });
        const seen: number[] = [];
        const weights: number[] = [];
        let ended = false;
        while (!ended && weights.length < stopAfter) {
          const step = await feed.next();
          const own =
            step.batch === null ? [] : tf.tidy(() => [...((step.batch as NonNullable<typeof step.batch>)().x[0] as tf.Tensor).dataSync()]);
          expect(step.weight).toBeCloseTo(own.length / step.used);
          seen.push(...own);
          weights.push(step.weight);
          step.release();
          ended = step.ended;
        }
        const at = await feed.position();
        for (let step = 0, over = ended; step < lost && !over; step++) {
          const next = await feed.next();
          next.release();
          over = next.ended;
        }
        await feed.close();
        return { seen, weights, ended, at };
      }),
    );
    const steps = results[0]?.weights.length ?? 0;
    for (const { weights, ended, at } of results) {
      expect(weights).toHaveLength(steps);
      expect(ended).toBe(results[0]?.ended);
      expect(at).toEqual(results[0]?.at);
    }
    for (const step of numbers(steps)) {
      expect(results.reduce((sum, { weights }) => sum + (weights[step] as number), 0)).toBeCloseTo(1);
    }
    return {
      seen: results.flatMap(({ seen }) => seen),
      steps,
      ended: results[0]?.ended ?? false,
      position: JSON.parse(JSON.stringify(results[0]?.at)) as Json,
    };
  });
}

describe('ranks that share a dataset', () => {
  test('ranks use each record once per epoch and take equally many steps, even if the number of ranks changes mid-epoch', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 20 }), { minLength: 1, maxLength: 5 }).filter((counts) => counts.some((count) => count > 0)),
        fc.integer({ min: 1, max: 6 }),
        fc.constantFrom('auto' as const, 'shuffled' as const),
        fc.boolean(),
        fc.integer({ min: 1, max: 3 }),
        fc.array(
          fc.record({
            worldSize: fc.integer({ min: 1, max: 4 }),
            steps: fc.integer({ min: 1, max: 5 }),
            lost: fc.integer({ min: 0, max: 4 }),
          }),
          {
            minLength: 1,
            maxLength: 4,
          },
        ),
        async (counts, batchSize, kind, isDispatched, times, stops) => {
          const records = await recordFiles(counts);
          const mixed = kind === 'shuffled' ? records.shuffle(16) : records;
          const dataset = (isDispatched ? mixed.dispatch() : mixed).repeat(times).batch(batchSize);
          const total = counts.reduce((sum, count) => sum + count, 0);
          const seen: number[] = [];
          let position: Json = null;
          let ended = false;
          for (let turn = 0; !ended; turn++) {
            const { worldSize, steps, lost } = stops[turn] ?? { worldSize: 2, steps: 1000, lost: 0 };
            const part = await run(dataset, worldSize, position, steps, lost);
            seen.push(...part.seen);
            ({ position, ended } = part);
          }
          expect(seen.sort((a, b) => a - b)).toEqual(numbers(total).flatMap((record) => new Array<number>(times).fill(record)));
          expect(position).toMatchObject({ pass: 1, states: [] });
        },
      ),
      { numRuns: 40 },
    );
  });

  test('ranks resume together if one rank has no stored position, whichever rank reads first', async () => {
    const dataset = (await recordFiles([5, 5, 5, 5])).map(({ xs }) => xs[0]).dispatch();
    const before = new LocalSplits();
    const first = dataset.read({ storage, share: { index: 0, count: 2 }, splits: before.reader() });
    const used = [(await first.next()).value, (await first.next()).value];
    const states = [first.state(), null];
    await first.return();
    const after = new LocalSplits();
    const rest = async (index: number, assigner: SplitAssigner) =>
      await dataset.toArray({ storage, share: { index, count: 2 }, splits: assigner, state: states[index] ?? null, states });
    const own = after.reader();
    let late: Promise<unknown[]> = Promise.resolve([]);
    await new Promise<void>((resolve) => {
      const next: SplitAssigner['next'] = async (...question) => {
        const answer = own.next(...question);
        resolve();
        return await answer;
      };
      late = rest(1, { ...own, next });
    });
    const all = [...used, ...(await rest(0, after.reader())), ...(await late)];
    expect(all.sort((a, b) => Number(a) - Number(b))).toEqual(numbers(20));
  });

  test('ranks resume together from any positions: in different passes, at the beginning, and after several restarts', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 3, maxLength: 7 }).filter((counts) => counts.some((count) => count > 0)),
        fc.integer({ min: 2, max: 3 }),
        fc.integer({ min: 1, max: 4 }),
        fc.boolean(),
        // Stops all readers after this many elements per reader. With 0, a reader registers no log.
        fc.array(fc.oneof(fc.constant([0, 0, 0]), fc.array(fc.integer({ min: 0, max: 25 }), { minLength: 3, maxLength: 3 })), {
          minLength: 1,
          maxLength: 3,
        }),
        async (counts, shares, times, isShuffled, stops) => {
          const records = (await recordFiles(counts)).map(({ xs }) => xs[0]);
          const dataset = (isShuffled ? records.shuffle(4) : records).dispatch().repeat(times);
          const used: unknown[] = [];
          let states = new Array<Json>(shares).fill(null);
          for (const takes of [...stops, null]) {
            const splits = new LocalSplits();
            const isFirst = states.every((state) => state === null);
            const readers = states.map((state, index) =>
              dataset.read({ storage, share: { index, count: shares }, splits: splits.reader(), state, states }),
            );
            // All readers start together, because the assigner waits for the logs of all resumed readers.
            if (!isFirst && takes?.every((take) => take === 0) !== true) {
              await Promise.all(readers.map((reader) => reader.hasNext()));
            }
            for (const [index, reader] of readers.entries()) {
              for (let rest = takes === null ? Number.POSITIVE_INFINITY : (takes[index] as number); rest > 0; rest--) {
                const { done, value } = await reader.next();
                if (done) {
                  break;
                }
                used.push(value);
              }
            }
            states = readers.map((reader, index) =>
              isFirst && takes?.[index] === 0 ? null : (JSON.parse(JSON.stringify(reader.state())) as Json),
            );
            await Promise.all(readers.map((reader) => reader.return()));
          }
          const total = counts.reduce((sum, count) => sum + count, 0);
          expect(used.sort((a, b) => Number(a) - Number(b))).toEqual(
            numbers(total).flatMap((record) => new Array<number>(times).fill(record)),
          );
        },
      ),
      { numRuns: 60 },
    );
  });

  test('ranks continue with the next pass of a repeated dataset when other ranks have read all of the current pass', async () => {
    const dataset = (await recordFiles([3, 3, 3])).map(({ xs }) => xs[0]).dispatch();
    const splits = new LocalSplits();
    const read = (index: number) => dataset.repeat(2).read({ storage, share: { index, count: 2 }, splits: splits.reader() });
    const early = read(0);
    const first: unknown[] = [];
    while (first.length < 9) {
      first.push((await early.next()).value);
    }
    const second: unknown[] = [];
    for await (const record of read(1)) {
      second.push(record);
    }
    await early.return();
    expect([first, second].map((records) => records.sort((a, b) => Number(a) - Number(b)))).toEqual([numbers(9), numbers(9)]);
    const none = (await recordFiles([0, 0])).dispatch().repeat();
    expect(await none.toArray({ storage, splits: new LocalSplits().reader() })).toEqual([]);
  });

  test('ranks divide the shares among themselves so that each share has a reader', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 20 }), (ranks, shares) => {
        const all = numbers(ranks).flatMap((rank) => sharesOfRank(rank, ranks, shares));
        for (const share of numbers(shares)) {
          const readers = all.filter(({ index }) => index === share);
          expect(readers.map(({ place }) => place).sort((a, b) => a - b)).toEqual(numbers(readers.length));
          for (const reader of readers) {
            expect(reader.readers).toBe(readers.length);
          }
          expect(readers.length).toBeGreaterThan(0);
        }
      }),
    );
  });

  test('all report an error when the dataset has no examples', async () => {
    await withRings(2, async (rings) => {
      const feeds = rings.map((ring) => {
        const options = {
          tf,
          peers: peersOfRing(ring),
          storage,
          seed: 1,
          names: { inputs: [], outputs: [] },
          position: null,
          onNotice: () => {},
        };
        return new DatasetBatchSource(fromArray<unknown>([]).batch(2), options);
      });
      for (const outcome of await Promise.allSettled(feeds.map((feed) => feed.next()))) {
        expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'DATA_INVALID' } });
      }
      await Promise.all(feeds.map((feed) => feed.close()));
    });
  });
});

function makeModel(): tf.LayersModel {
  const model = tf.sequential();
  const kernelInitializer = () => tf.initializers.glorotUniform({ seed: 5 });
  model.add(tf.layers.dense({ units: 5, activation: 'tanh', inputShape: [3], kernelInitializer: kernelInitializer() }));
  model.add(tf.layers.dense({ units: 1, kernelInitializer: kernelInitializer() }));
  model.compile({ optimizer: tf.train.adam(0.01), loss: 'meanSquaredError' });
  return model;
}

function weightsOf(model: tf.LayersModel): number[] {
  return model.getWeights().flatMap((weight) => [...weight.dataSync()]);
}

async function train(
  worldSize: number,
  data: () => FitData,
  options: FitOptions,
  checkpointDir?: string,
  generation = 1,
): Promise<number[]> {
  return await withRings(worldSize, async (rings) => {
    const models = rings.map(makeModel);
    const checkpoints =
      checkpointDir === undefined ? null : { store: new CheckpointStore(storage, fileUri(checkpointDir)), everySteps: 3, keep: 3 };
    await Promise.all(
      rings.map((ring, rank) => {
        const environment = {
          tf,
          strategy: allReduceStrategy(ring),
          storage,
          jobId: 'a',
          generation,
          phase: new Phases('a').begin('fit'),
          checkpoints,
          summaries: null,
          report: () => {},
        };
        return fitModel(environment, models[rank] as tf.LayersModel, data(), options);
      }),
    );
    const [first, ...others] = models.map(weightsOf);
    for (const other of others) {
      expect(other).toEqual(first);
    }
    return first as number[];
  });
}

async function exampleFiles(files: number): Promise<string> {
  const records = numbers(50).map((index) =>
    encodeExample({ x: Float32Array.of(Math.sin(index), Math.cos(index), index / 50), y: Math.sin(index) * 2 }),
  );
  const parts = numbers(files).map((part) => [`part-${part}`, tfRecordFile(records.filter((_, index) => index % files === part))] as const);
  return await folderWith(Object.fromEntries(parts));
}

const schema = { x: fixedLenFeature([3], 'float32'), y: fixedLenFeature([1], 'float32') };
const examplesOf = (folder: string) => tfRecords(folder).map(parseExample(schema));

describe('fit', () => {
  test('fit gives the same result on two ranks with half the batch size as on one rank, and the same result as arrays', async () => {
    const folder = await exampleFiles(1);
    const options = { epochs: 2 };
    const one = await train(1, () => examplesOf(folder).batch(8), options);
    const two = await train(2, () => examplesOf(folder).batch(4), options);
    const three = await train(2, () => examplesOf(folder), { ...options, batchSize: 4 });
    const all = await examplesOf(folder).batch(50).toArray({ storage });
    const plain = await train(
      1,
      () => ({ x: all[0]?.x as NonNullable<(typeof all)[0]['x']>, y: all[0]?.y as NonNullable<(typeof all)[0]['y']> }),
      {
        ...options,
        batchSize: 8,
        shuffle: false,
      },
    );
    expect(plain).toEqual(one);
    for (const [index, weight] of one.entries()) {
      expect(two[index]).toBeCloseTo(weight, 5);
      expect(three[index]).toBeCloseTo(weight, 5);
    }
  });

  const inMemory = () => {
    const rows = numbers(40).map((row) => ({ xs: [row / 40, Math.sin(row), row % 3], ys: [row / 20] }));
    return fromTfDataset(tf.data.array(rows).shuffle(40, '3').batch(4));
  };

  test.each([
    { data: 'files', open: (folder: string) => examplesOf(folder).shuffle(20).batch(4), epochs: 3 },
    { data: 'a tf.data dataset that shuffles', open: inMemory, epochs: 3 },
    { data: 'a tf.data dataset that shuffles and is repeated', open: () => inMemory().repeat(2), epochs: 2 },
  ])('fit resumes after a stop and ends with identical bits: $data', async ({ open, epochs }) => {
    const folder = await exampleFiles(5);
    const data = () => open(folder);
    const whole = await train(2, data, { epochs });
    const dir = await folderWith();
    const stop = new Error('stop');
    const options: FitOptions = {
      epochs,
      callbacks: {
        onBatchEnd: async (_, { step }) => {
          if (step < 11) {
            return;
          }
          await expect.poll(() => readdir(dir)).toContain('step-9');
          throw stop;
        },
      },
    };
    await expect(train(2, data, options, dir)).rejects.toBe(stop);
    const steps: number[] = [];
    const rest = await train(2, data, { epochs, callbacks: { onBatchEnd: (_, { step }) => void steps.push(step) } }, dir, 2);
    expect(steps[0]).toBe(10);
    expect(rest).toEqual(whole);
  });

  test('fit divides an endless dataset into epochs, which stay the same after a stop', async () => {
    const folder = await exampleFiles(3);
    const data = () => examplesOf(folder).shuffle(20).repeat().batch(4);
    const options = { epochs: 4, stepsPerEpoch: 5 };
    const epochs: number[] = [];
    const whole = await train(2, data, { ...options, callbacks: { onEpochEnd: (epoch) => void epochs.push(epoch) } });
    expect(epochs).toEqual([0, 0, 1, 1, 2, 2, 3, 3]);
    const dir = await folderWith();
    await train(2, data, { ...options, epochs: 2 }, dir);
    expect(await train(2, data, options, dir, 2)).toEqual(whole);
  });

  test('fit accepts labelled CSV with a prepare function, and frees all tensors', async () => {
    const rows = numbers(40).map((index) => `${index / 40},${Math.sin(index)},${index % 3},${index / 20}`);
    const folder = await folderWith({ 'a.csv': `a,b,c,y\n${rows.join('\n')}\n` });
    const dataset = csv(folder, { columnConfigs: { y: { isLabel: true } } }).batch(8);
    const data = (): FitData => ({
      dataset,
      prepare: ({ x, y }) => ({ x: tf.stack(x, 1), y: (y[0] as tf.Tensor).reshape([-1, 1]) }),
    });
    await train(1, data, { epochs: 1 });
    const model = makeModel();
    await withRings(1, async ([ring]) => {
      const environment = {
        tf,
        strategy: allReduceStrategy(ring as Ring),
        storage,
        jobId: 'a',
        generation: 1,
        phase: new Phases('a').begin('fit'),
        checkpoints: null,
        summaries: null,
        report: () => {},
      };
      await fitModel(environment, model, data(), { epochs: 1 });
      const before = tf.memory().numTensors;
      await fitModel(environment, model, data(), { epochs: 3 });
      const mapped = dataset.map(({ xs, ys }) => tf.tidy(() => ({ x: toTensor(xs), y: toTensor(ys) })));
      await fitModel(environment, model, mapped, { epochs: 2 });
      expect(tf.memory().numTensors).toBe(before);
    });
  });

  test('fit accepts datasets of tf.data', async () => {
    const folder = await exampleFiles(1);
    const one = await train(1, () => examplesOf(folder).batch(4), { epochs: 2 });
    expect(await train(1, () => examplesOf(folder).batch(4).toTfDataset(tf, { storage }), { epochs: 2 })).toEqual(one);
    await train(2, () => examplesOf(folder).batch(4).toTfDataset(tf, { storage }), { epochs: 2 });
  });

  test('fit rejects an unsuitable dataset with an error that names the defect', async () => {
    const folder = await exampleFiles(1);
    const refused = async (data: FitData, options: FitOptions, message: RegExp) => {
      await expect(train(1, () => data, options)).rejects.toThrow(message);
    };
    await refused(examplesOf(folder).batch(4), { batchSize: 4 }, /is already batched/);
    await refused(fromArray([1, 2]), {}, /an element of the dataset is an object with values, shape, but/);
    await refused(fromArray([{ xs: 'a', ys: 1 }]), {}, /xs of an element of the dataset is the string a instead of a batch of numbers/);
    const named = [{ xs: { a: 1, text: 'b' }, ys: 1 }];
    await refused(fromArray(named), {}, /xs\.text of an element of the dataset is .* instead of a batch of numbers/);
    const listed = fromArray([{ xs: { a: 1, text: 'b' }, ys: 1 }])
      .batch(1)
      .map(({ xs, ys }) => ({ xs: [xs.a, xs.text], ys }));
    await refused(listed, {}, /xs\[1\] of an element of the dataset is .* instead of a batch of numbers/);
    await refused({ x: tf.ones([3, 3]), y: tf.ones([3, 1]) }, { stepsPerEpoch: 2 }, /stepsPerEpoch/);
    await refused(tfRecords(join(folder, 'none-*')), {}, /no file matches/);
  });
});

function toTensor(columns: unknown): tf.Tensor {
  const values = Object.values(columns as Record<string, { values: Float32Array }>);
  return tf.stack(
    values.map(({ values: column }) => tf.tensor1d(column)),
    1,
  );
}
