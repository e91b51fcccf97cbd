import * as tf from '@tensorflow/tfjs';
import { describe, expect, test, vi } from 'vitest';
import type { Report } from '../../contract/process/task-context.ts';
import { SummaryWriter } from '../../contract/summary/summary.ts';
import { folder } from '../../contract/testing/folder.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { fromArray, fromGenerator } from '../data/sources/sources.ts';
import { classifier, examples, fitTogether, weightsOf } from '../testing/fit-world.ts';
import type { BatchLogs } from './callbacks.ts';
import type { FitOptions } from './fit-options.ts';

const expectClose = (values: readonly number[], expected: readonly number[], digits = 5) => {
  expect(values).toHaveLength(expected.length);
  values.forEach((value, index) => {
    expect(value).toBeCloseTo(expected[index] as number, digits);
  });
};

describe('validation', () => {
  const data = examples(50);
  const held = examples(23, 1000);

  test('validation returns the same values as model.fit on each rank, although each rank evaluates only a share', async () => {
    const theirs = classifier(tf.train.sgd(0.1));
    const options = { epochs: 3, batchSize: 8, shuffle: false };
    const expected = await theirs.fit(data.x, data.y, { ...options, validationData: [held.x, held.y], verbose: 0 });
    for (const [worldSize, batchSize] of [
      [1, 8],
      [2, 4],
      [4, 2],
    ] as const) {
      const models = Array.from({ length: worldSize }, () => classifier(tf.train.sgd(0.1)));
      const logs: unknown[] = [];
      const onEpochEnd = (_: number, epochLogs: object) => void logs.push(epochLogs);
      const histories = await fitTogether(models, data, {
        ...options,
        batchSize,
        validationData: [held.x, held.y],
        validationBatchSize: 5,
        callbacks: { onEpochEnd },
      });
      for (const { history } of histories) {
        for (const name of ['loss', 'acc', 'val_loss', 'val_acc']) {
          expectClose(history[name] as number[], expected.history[name] as number[], 4);
        }
      }
      expect(logs).toHaveLength(3 * worldSize);
      expect(logs[0]).toEqual({
        loss: expect.any(Number),
        acc: expect.any(Number),
        val_loss: histories[0]?.history.val_loss?.[0],
        val_acc: expect.any(Number),
      });
    }
  });

  test('validation returns the same values as model.fit with validationSplit', async () => {
    const [ours, theirs] = [classifier(tf.train.sgd(0.1)), classifier(tf.train.sgd(0.1))];
    const options = { epochs: 2, batchSize: 8, shuffle: false, validationSplit: 0.3 };
    const expected = await theirs.fit(data.x, data.y, { ...options, verbose: 0 });
    // Programs in JavaScript pass null for options that they leave out, which model.fit accepts.
    const unused: object = { callbacks: null, validationData: null, classWeight: null };
    const [history] = await fitTogether([ours], data, { ...options, ...unused });
    expectClose(weightsOf(ours), weightsOf(theirs));
    expectClose(history?.history.val_loss as number[], expected.history.val_loss as number[], 4);
  });

  test('validation accepts a dataset, and evaluates a given number of batches of an endless one', async () => {
    const rows = Array.from({ length: 10 }, (_, row) => ({ xs: [row / 10, 1, 0, -1], ys: row < 4 ? [1, 0, 0] : [0, 1, 0] }));
    const set = fromArray(rows).map(({ xs, ys }) => ({ xs: Float32Array.from(xs), ys: Float32Array.from(ys) }));
    const columns = { x: tf.tensor2d(rows.map(({ xs }) => xs)), y: tf.tensor2d(rows.map(({ ys }) => ys)) };
    const models = () => [classifier(tf.train.sgd(0.1)), classifier(tf.train.sgd(0.1))];
    const [bySet] = await fitTogether(models(), data, { validationData: set, validationBatchSize: 2 });
    const [byColumns] = await fitTogether(models(), data, { validationData: columns });
    expectClose(bySet?.history.val_loss as number[], byColumns?.history.val_loss as number[]);
    const endless = { validationData: set.repeat(), validationSteps: 5, validationBatchSize: 2 };
    const [ofSome] = await fitTogether(models(), data, endless);
    expect(ofSome?.history.val_acc?.[0]).toBeGreaterThanOrEqual(0);
  });

  test('validation ends training with an error if its data is unreadable or empty', async () => {
    const attempt = (rows: () => AsyncGenerator<{ xs: Float32Array; ys: Float32Array }>) =>
      fitTogether([classifier(tf.train.sgd(0.1))], data, { validationData: fromGenerator(rows) });
    const row = { xs: new Float32Array(4), ys: Float32Array.of(1, 0, 0) };
    const broken = async function* () {
      yield row;
      throw new Error('bad disk');
    };
    await expect(attempt(broken)).rejects.toThrow('bad disk');
    const empty = async function* () {
      yield* [];
    };
    await expect(attempt(empty)).rejects.toThrow('the validation data has no examples');
  });

  test('validation changes no weights and leaks no tensor', async () => {
    const [first, second] = [classifier(tf.train.adam(0.01)), classifier(tf.train.adam(0.01))];
    const options = { epochs: 2, batchSize: 8 };
    await fitTogether([first], data, options);
    await fitTogether([second], data, { ...options, validationData: held });
    expect(weightsOf(second)).toEqual(weightsOf(first));
    const before = tf.memory().numTensors;
    await fitTogether([second], data, { ...options, validationData: held });
    expect(tf.memory().numTensors).toBe(before);
  });
});

test('a run resumed mid-epoch validates, counts and ends like an uninterrupted run', async () => {
  const data = examples(40);
  const options = { epochs: 3, batchSize: 4, validationData: examples(9, 700), accumulate: 2 };
  const make = () => [classifier(tf.train.adam(0.01), { dropout: 0.3 }), classifier(tf.train.adam(0.01), { dropout: 0.3 })];
  const straight = make();
  const [whole] = await fitTogether(straight, data, options);
  const dir = await folder();
  const reports: Report[] = [];
  let last = 0;
  const onBatchEnd = (_: number, { step }: BatchLogs) => {
    last = step;
  };
  const onBatchBegin = async () => {
    if (last === 4) {
      await expect.poll(() => reports).toContainEqual({ type: 'checkpoint', step: 4 });
      throw new Error('killed');
    }
  };
  const world = { folder: dir, everySteps: 4 };
  const callbacks = { onBatchBegin, onBatchEnd };
  await expect(fitTogether(make(), data, { ...options, callbacks }, { ...world, reports: [reports, reports] })).rejects.toThrow('killed');
  const again = make();
  const batches: number[] = [];
  const counting = { onBatchEnd: (batch: number) => void batches.push(batch) };
  const [rest] = await fitTogether(again, data, (rank) => (rank === 0 ? { ...options, callbacks: counting } : options), {
    ...world,
    generation: 2,
  });
  expect(batches).toEqual([1, 2, 0, 1, 2]);
  expect(rest).toEqual(whole);
  expect(weightsOf(again[1] as tf.LayersModel)).toEqual(weightsOf(straight[0] as tf.LayersModel));
});

describe('weights of examples', () => {
  const data = examples(40);

  test('class weights give the same result as in model.fit, also on several ranks', async () => {
    const classWeight = { 0: 0.2, 1: 1, 2: 5 };
    const options = { epochs: 2, batchSize: 8, shuffle: false, classWeight };
    const theirs = classifier(tf.train.sgd(0.1));
    const expected = await theirs.fit(data.x, data.y, { ...options, verbose: 0 });
    const [alone, ...together] = [1, 2, 2].map(() => classifier(tf.train.sgd(0.1))) as [tf.Sequential, tf.Sequential, tf.Sequential];
    const [history] = await fitTogether([alone], data, options);
    await fitTogether(together, data, { ...options, batchSize: 4 });
    expectClose(weightsOf(alone), weightsOf(theirs));
    expectClose(weightsOf(together[0]), weightsOf(theirs));
    expectClose(history?.history.loss as number[], expected.history.loss as number[], 4);
  });

  test('make an example with weight 2 count as two, and one with weight 0 not at all', async () => {
    const twice = {
      x: tf.concat([data.x.slice(0, 20), data.x.slice(0, 20)]),
      y: tf.concat([data.y.slice(0, 20), data.y.slice(0, 20)]),
    };
    const weights = { values: Float32Array.from({ length: 40 }, (_, index) => (index < 20 ? 2 : 0)), shape: [40] };
    const options = { batchSize: 40, epochs: 3 };
    const [weighted, doubled, prepared] = [1, 2, 3].map(() => classifier(tf.train.sgd(0.1))) as [
      tf.Sequential,
      tf.Sequential,
      tf.Sequential,
    ];
    await fitTogether([weighted], data, { ...options, sampleWeight: weights });
    await fitTogether([doubled], twice, options);
    expectClose(weightsOf(weighted), weightsOf(doubled));
    const prepare = ({ x, y }: { x: tf.Tensor[]; y: tf.Tensor[] }) => ({ x, y, sampleWeight: tf.tensor1d([...weights.values]) });
    await fitTogether([prepared], { ...data, prepare }, { ...options, shuffle: false });
    expectClose(weightsOf(prepared), weightsOf(weighted));
  });

  test('example weights leak no tensor', async () => {
    const model = classifier(tf.train.sgd(0.1));
    const options = { classWeight: { 0: 1, 1: 2, 2: 3 }, sampleWeight: tf.ones([40]) };
    const before = tf.memory().numTensors;
    await fitTogether([model], data, options);
    expect(tf.memory().numTensors).toBe(before);
  });
});

describe('steps', () => {
  const data = examples(50);

  test('steps that accumulate several batches equal steps on one large batch, even at the end of an epoch', async () => {
    const [large, pieces] = [classifier(tf.train.adam(0.01)), classifier(tf.train.adam(0.01))];
    const shards = [classifier(tf.train.adam(0.01)), classifier(tf.train.adam(0.01))];
    const [history] = await fitTogether([large], data, { batchSize: 24, epochs: 2 });
    const [other] = await fitTogether([pieces], data, { batchSize: 8, accumulate: 3, epochs: 2 });
    const [sharded] = await fitTogether(shards, data, { batchSize: 4, accumulate: 3, epochs: 2 });
    expect([history?.steps, other?.steps, sharded?.steps]).toEqual([6, 6, 6]);
    expectClose(weightsOf(pieces), weightsOf(large));
    expectClose(weightsOf(shards[0] as tf.LayersModel), weightsOf(large));
    expectClose(other?.history.loss as number[], history?.history.loss as number[], 4);
  });

  test.each([
    ['sgd', () => tf.train.sgd(0.5)],
    ['momentum', () => tf.train.momentum(0.5, 0.5)],
    ['adam', () => tf.train.adam(0.5)],
  ])('steps follow a learning rate schedule with %s', async (_, optimizer) => {
    const seen: unknown[] = [];
    const scheduled = classifier(optimizer());
    const learningRate = (at: object) => {
      seen.push(at);
      return 0;
    };
    const before = weightsOf(scheduled);
    await fitTogether([scheduled], data, { batchSize: 25, epochs: 2, learningRate });
    expect(weightsOf(scheduled)).toEqual(before);
    expect(seen).toEqual([0, 1, 2, 3].map((step) => ({ step, epoch: step < 2 ? 0 : 1, worldSize: 1, initial: 0.5 })));
    expect((scheduled.optimizer as unknown as { learningRate: number }).learningRate).toBe(0.5);
  });

  test('1,000 steps leak no tensor', async () => {
    const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
    model.compile({ optimizer: tf.train.momentum(0.001, 0.9), loss: 'meanSquaredError', metrics: ['mae'] });
    const line = { x: tf.tensor2d([[1], [2], [3], [4]]), y: tf.tensor2d([[2], [4], [6], [8]]) };
    await fitTogether([model], line, { batchSize: 1 });
    const counts: number[] = [];
    await fitTogether([model], line, {
      batchSize: 1,
      epochs: 250,
      callbacks: { onEpochEnd: (epoch) => void (epoch % 10 === 0 && counts.push(tf.memory().numTensors)) },
    });
    expect(new Set(counts).size).toBe(1);
  });
});

describe('options of fit', () => {
  const attempt = (options: FitOptions, data = examples(8)) => fitTogether([classifier(tf.train.sgd(0.1))], data, options);

  test('options with invalid values are rejected, with an error that names them', async () => {
    const held = examples(4);
    await expect(attempt({ validationData: held, validationSplit: 0.2 })).rejects.toThrow(/cannot be combined/);
    await expect(attempt({ validationSplit: 1.5 })).rejects.toThrow(/validationSplit is 1.5, but must be above 0 and below 1/);
    await expect(attempt({ validationSplit: 0.99 })).rejects.toThrow(/leaves no examples/);
    await expect(attempt({ validationSteps: 2, validationData: held })).rejects.toThrow(/validationSteps applies only to datasets/);
    await expect(attempt({ validationData: { ...held, y: tf.zeros([3, 3]) } })).rejects.toThrow(/different numbers of examples: 4, 3/);
    await expect(attempt({ accumulate: 0 })).rejects.toThrow(/accumulate of fit is 0/);
    await expect(attempt({ initialEpoch: -1 })).rejects.toThrow(/initialEpoch of fit is -1/);
    await expect(attempt({ clipNorm: -1 })).rejects.toThrow(/clipNorm of fit is -1/);
    await expect(attempt({ learningRate: () => Number.NaN })).rejects.toThrow(/learningRate returned NaN for step 0/);
    await expect(attempt({ classWeight: { 0: 1, 1: 1 } })).rejects.toThrow(/has undefined for class 2, but each of the 3 classes/);
    await expect(attempt({ classWeight: { output: { 0: 1 } } })).rejects.toThrow(/classWeight names output, but the model's outputs are/);
    await expect(attempt({ sampleWeight: tf.ones([3]) })).rejects.toThrow(/different numbers of examples: 8, 3/);
    const rows = fromArray([{ xs: new Float32Array(4), ys: new Float32Array(3) }]);
    const onSet = (options: FitOptions) => fitTogether([classifier(tf.train.sgd(0.1))], rows, options);
    await expect(onSet({ validationSplit: 0.5 })).rejects.toThrow(/validationSplit does not apply to datasets/);
    await expect(onSet({ sampleWeight: tf.ones([1]) })).rejects.toThrow(/sampleWeight does not apply to datasets/);
  });

  test('options with unknown names are rejected with a suggestion', async () => {
    const unknown = (options: object) => attempt(options as FitOptions);
    await expect(unknown({ epoch: 3 })).rejects.toMatchObject({ code: 'USAGE', message: 'fit has no option epoch; did you mean epochs?' });
    await expect(unknown({ batchesPerEpoch: 3 })).rejects.toThrow('fit has no option batchesPerEpoch; use stepsPerEpoch instead');
    await expect(unknown({ yieldEvery: 'never' })).rejects.toThrow('fit has no option yieldEvery; omit it');
    await expect(unknown({ tensorboard: true })).rejects.toThrow(/^fit has no option tensorboard\.$/);
    await expect(unknown({ summaries: { every: 2 } })).rejects.toThrow(/fit's summaries has no option every/);
    await expect(unknown({ onNaN: 'ignore' })).rejects.toThrow('onNaN of fit is "ignore", but must be "stop" or "continue"');
    await expect(unknown(tf.ones([8, 3]))).rejects.toMatchObject({ hint: expect.stringContaining('cluster.fit(model, { x, y }') });
  });

  test('the option initialEpoch is the first epoch to train', async () => {
    const model = classifier(tf.train.sgd(0.1));
    const [history] = await fitTogether([model], examples(8), { initialEpoch: 3, epochs: 5 });
    expect(history?.epoch).toEqual([3, 4]);
  });
});

test('verbose prints one line per epoch, on rank 0 only', async () => {
  const written: string[] = [];
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    written.push(String(text));
    return true;
  });
  try {
    const models = [classifier(tf.train.sgd(0.1)), classifier(tf.train.sgd(0.1))];
    await fitTogether(models, examples(8), { epochs: 2, verbose: 1 });
  } finally {
    write.mockRestore();
  }
  expect(written.filter((text) => text.startsWith('Epoch'))).toEqual([
    expect.stringMatching(/^Epoch 1 \/ 2 {2}loss=[\d.]+ {2}acc=[\d.]+\n$/),
    expect.stringMatching(/^Epoch 2 \/ 2 {2}loss=/),
  ]);
});

test.each([1, 2])('anonymous metric functions get names, on %i ranks', async (workers) => {
  const models = Array.from({ length: workers }, () => {
    const model = tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [4] })] });
    const metrics = [(y: tf.Tensor, p: tf.Tensor) => tf.mean(tf.sub(y, p)), (y: tf.Tensor) => tf.mean(y)];
    model.compile({ optimizer: 'sgd', loss: 'meanSquaredError', metrics });
    return model;
  });
  const dir = await folder();
  const summaries = new SummaryWriter({ storage: new FileStorage(), dir: fileUri(dir), trial: 't', onTrouble: () => {} });
  const histories = await fitTogether(models, examples(8), {}, { summaries });
  for (const { history } of histories) {
    expect(Object.keys(history)).toEqual(['loss', 'metric_0', 'metric_1']);
    expect(history.metric_1?.[0]).toBeCloseTo(1 / 3, 5);
  }
});
