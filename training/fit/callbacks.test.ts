import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { inspect } from 'node:util';
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import { folder } from '../../contract/testing/folder.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { StopOrders } from '../checkpoint/stop-order.ts';
import { classifier, examples, fitTogether, weightsOf } from '../testing/fit-world.ts';
import type { BatchLogs, FitCallbacks } from './callbacks.ts';
import type { FitOptions } from './fit-options.ts';

const data = examples(20);
const twoModels = () => [classifier(tf.train.sgd(0.1)), classifier(tf.train.sgd(0.1))] as const;

function recorder(
  calls: unknown[],
): Required<Pick<FitCallbacks, 'onTrainBegin' | 'onEpochBegin' | 'onBatchBegin' | 'onBatchEnd'>> & FitCallbacks {
  return {
    onTrainBegin: () => void calls.push(['train begin']),
    onTrainEnd: () => void calls.push(['train end']),
    onEpochBegin: (epoch) => void calls.push(['epoch begin', epoch]),
    onEpochEnd: (epoch, logs) => void calls.push(['epoch end', epoch, Object.keys(logs)]),
    onBatchBegin: (batch) => void calls.push(['batch begin', batch]),
    onBatchEnd: (batch, logs) => void calls.push(['batch end', batch, logs?.loss !== undefined && Object.keys({ ...logs })]),
  };
}

describe('callbacks', () => {
  test('callbacks run as in model.fit: plain objects, tf.CustomCallbacks, and lists of both', async () => {
    const theirs: unknown[] = [];
    const options = { epochs: 2, batchSize: 10 };
    await classifier(tf.train.sgd(0.1)).fit(data.x, data.y, {
      ...options,
      callbacks: recorder(theirs) as tf.CustomCallbackArgs,
      verbose: 0,
    });
    for (const wrap of [
      (callbacks: FitCallbacks) => callbacks,
      (callbacks: FitCallbacks) => [callbacks],
      (callbacks: FitCallbacks) => new tf.CustomCallback(callbacks as tf.CustomCallbackArgs),
    ]) {
      const ours: unknown[] = [];
      await fitTogether([classifier(tf.train.sgd(0.1))], data, { ...options, callbacks: wrap(recorder(ours)) });
      expect(JSON.stringify(ours).replaceAll('"step",', '')).toBe(JSON.stringify(theirs));
    }
  });

  test('callbacks receive means over all ranks, the number of the batch in its epoch, and the number of the step over all epochs', async () => {
    const seen: BatchLogs[][] = [[], []];
    const histories = await fitTogether(twoModels(), data, (rank) => ({
      epochs: 2,
      batchSize: 5,
      callbacks: { onBatchEnd: (batch, logs) => void seen[rank]?.push({ ...logs, batch }) },
    }));
    expect(seen[0]).toEqual(seen[1]);
    expect(seen[0]?.map(({ batch, step, size }) => [batch, step, size])).toEqual([
      [0, 1, 10],
      [1, 2, 10],
      [0, 3, 10],
      [1, 4, 10],
    ]);
    const losses = seen[0]?.map(({ loss }) => loss as number) as [number, number, number, number];
    expect((losses[0] + losses[1]) / 2).toBeCloseTo(histories[0]?.history.loss?.[0] as number, 6);
  });

  test('callbacks receive logs that print like plain objects', async () => {
    let printed = '';
    const onBatchEnd = (_: number, logs: BatchLogs) => {
      printed = inspect(logs, { breakLength: Number.POSITIVE_INFINITY });
    };
    await fitTogether([classifier(tf.train.sgd(0.1))], data, { callbacks: { onBatchEnd } });
    expect(printed).toMatch(/^\{ batch: 0, step: 1, size: 20, loss: [\d.]+, acc: [\d.]+ \}$/);
  });

  test('callbacks end training with their error if they throw', async () => {
    const callbacks = {
      onEpochEnd: () => {
        throw new Error('enough');
      },
    };
    await expect(fitTogether([classifier(tf.train.sgd(0.1))], data, { callbacks })).rejects.toThrow('enough');
  });
});

describe('model.stopTraining', () => {
  test('model.stopTraining ends training on a single rank after the same step as in model.fit', async () => {
    for (const stopAt of ['onBatchEnd', 'onEpochEnd'] as const) {
      const [ours, theirs] = twoModels();
      const options = (model: tf.LayersModel): FitOptions => {
        const callback = (at: number) => {
          if (at === 1) {
            model.stopTraining = true;
          }
        };
        return { epochs: 5, batchSize: 5, callbacks: { [stopAt]: callback } };
      };
      const expected = await theirs.fit(data.x, data.y, { ...options(theirs), shuffle: false, verbose: 0 } as tf.ModelFitArgs);
      const [history] = await fitTogether([ours], data, { ...options(ours), shuffle: false });
      expect(history?.epoch).toEqual(expected.epoch);
      weightsOf(ours).forEach((weight, index) => {
        expect(weight).toBeCloseTo(weightsOf(theirs)[index] as number, 5);
      });
      expect(history?.endedEarly).toMatch(/^a callback has set model.stopTraining \(step \d\)$/);
    }
  });

  test('model.stopTraining ends training on all ranks after the same step when one rank sets it', async () => {
    for (const stopper of [0, 1]) {
      const models = twoModels();
      const histories = await fitTogether(models, data, (rank) => ({
        epochs: 5,
        batchSize: 5,
        callbacks: {
          onBatchEnd: (_, { step }) => {
            if (rank === stopper && step === 3) {
              (models[rank] as tf.Sequential).stopTraining = true;
            }
          },
        },
      }));
      expect(histories.map(({ steps }) => steps)).toEqual([4, 4]);
      expect(weightsOf(models[0])).toEqual(weightsOf(models[1]));
      const reason = 'a callback has set model.stopTraining (step 4)';
      expect(histories.map(({ endedEarly }) => endedEarly)).toEqual([reason, reason]);
    }
  });

  test('model.stopTraining ends training on all ranks after the epoch if one rank sets it in onEpochEnd', async () => {
    const models = twoModels();
    const histories = await fitTogether(models, data, (rank) => ({
      epochs: 5,
      batchSize: 5,
      callbacks: {
        onEpochEnd: (epoch) => {
          if (rank === 1 && epoch === 1) {
            models[1].stopTraining = true;
          }
        },
      },
    }));
    expect(histories.map(({ steps, epoch }) => [steps, epoch])).toEqual([
      [4, [0, 1]],
      [4, [0, 1]],
    ]);
  });

  test('model.stopTraining ends training after the same epoch as in model.fit when tf.callbacks.earlyStopping sets it', async () => {
    const held = examples(30, 500);
    const options = { epochs: 200, batchSize: 10, shuffle: false };
    const stopping = () => tf.callbacks.earlyStopping({ monitor: 'val_loss', patience: 2, minDelta: 0.001 });
    const theirs = classifier(tf.train.adam(0.3));
    const expected = await theirs.fit(data.x, data.y, { ...options, validationData: [held.x, held.y], callbacks: stopping(), verbose: 0 });
    expect(expected.epoch.length).toBeLessThan(200);
    const models = [classifier(tf.train.adam(0.3)), classifier(tf.train.adam(0.3))];
    const histories = await fitTogether(models, data, () => ({
      ...options,
      batchSize: 5,
      validationData: [held.x, held.y],
      callbacks: [stopping(), { onEpochEnd: () => {} }],
    }));
    expect(histories.map(({ epoch }) => epoch)).toEqual([expected.epoch, expected.epoch]);
  });
});

describe('training that ends early', () => {
  const options = (models: readonly tf.LayersModel[], stopAt: number, rank: number): FitOptions => ({
    epochs: 5,
    batchSize: 5,
    callbacks: {
      onBatchEnd: (_, { step }) => {
        if (step === stopAt) {
          (models[rank] as tf.LayersModel).stopTraining = true;
        }
      },
    },
  });

  test('training that ends early writes a final checkpoint, does not continue in the next generation, and continues in another application', async () => {
    const dir = await folder();
    const models = twoModels();
    await fitTogether(models, data, (rank) => options(models, 3, rank), { folder: dir });
    const store = new CheckpointStore(new FileStorage(), fileUri(dir));
    expect((await store.newest(() => {}))?.position).toMatchObject({ step: 4, epoch: 2, final: true });
    expect(JSON.parse(await readFile(path.join(dir, 'stop.json'), 'utf8'))).toEqual({
      jobId: 'application_1_0001',
      phase: 'fit-1',
      reason: expect.stringContaining('model.stopTraining'),
      step: 4,
      at: 4,
    });
    const again = await fitTogether(twoModels(), data, { epochs: 5, batchSize: 5 }, { folder: dir, generation: 2 });
    expect(again.map(({ steps, endedEarly }) => [steps, endedEarly !== null])).toEqual([
      [4, true],
      [4, true],
    ]);
    const other = { folder: dir, jobId: 'application_1_0002' };
    const [more] = await fitTogether(twoModels(), data, { epochs: 5, batchSize: 5 }, other);
    expect(more).toMatchObject({ steps: 10, endedEarly: null });
    expect(await readdir(dir)).not.toContain('stop.json');
  });

  test('training that ends early ends at the recorded step when it resumes from an earlier checkpoint', async () => {
    const dir = await folder();
    await new StopOrders(new FileStorage(), fileUri(dir)).give({
      jobId: 'application_1_0001',
      phase: 'fit-1',
      reason: 'for a test',
      step: 2,
      at: 7,
    });
    const [history] = await fitTogether(twoModels(), data, { epochs: 5, batchSize: 5 }, { folder: dir, generation: 2 });
    expect(history).toMatchObject({ steps: 7, endedEarly: 'for a test' });
  });

  test("training that ends early ends on all ranks after an evaluator's stop order, and reports the order's reason", async () => {
    const dir = await folder();
    const orders = new StopOrders(new FileStorage(), fileUri(dir));
    const reports = [[], []] as never[][];
    const models = twoModels();
    const histories = await fitTogether(
      models,
      data,
      {
        epochs: 100_000,
        batchSize: 5,
        callbacks: {
          onBatchEnd: async (_, { step }) => {
            if (step === 5) {
              await orders.give({ jobId: 'application_1_0001', phase: 'fit-1', reason: 'it learns no more', step: 4, at: null });
            }
            // Leaves time for the next folder check.
            if (step > 5) {
              await new Promise((resolve) => setTimeout(resolve, 20));
            }
          },
        },
      },
      { folder: dir, reports },
    );
    expect(histories[0]?.steps).toBe(histories[1]?.steps);
    expect(histories[0]?.endedEarly).toBe('it learns no more');
    expect(weightsOf(models[0])).toEqual(weightsOf(models[1]));
    expect(reports[0]).toContainEqual({ type: 'early-end', step: histories[0]?.steps, reason: 'it learns no more' });
    expect(reports[1]?.filter(({ type }) => type === 'early-end')).toEqual([]);
    expect(await orders.read('application_1_0001', 'fit-1')).toMatchObject({ step: 4, at: histories[0]?.steps });
  });

  test('training that ends early is not triggered by a damaged stop order', async () => {
    const dir = await folder();
    await writeFile(path.join(dir, 'stop.json'), '{"jobId":');
    const [history] = await fitTogether(twoModels(), data, { epochs: 1 }, { folder: dir });
    expect(history?.endedEarly).toBeNull();
  });
});
