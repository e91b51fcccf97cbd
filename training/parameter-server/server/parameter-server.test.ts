import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { CheckpointStore } from '../../../contract/checkpoint/checkpoint-store.ts';
import type { Report } from '../../../contract/process/task-context.ts';
import { counted } from '../../../contract/testing/checkpoint-behaviour.ts';
import { folder } from '../../../contract/testing/folder.ts';
import { TonyError } from '../../../platform/errors.ts';
import { Secret } from '../../../platform/secret.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { fileUri } from '../../../storage/uri.ts';
import { Phases } from '../../checkpoint/phases.ts';
import type { TrainingData } from '../../data/data.ts';
import { type FitEnvironment, fit as fitModel } from '../../fit/fit.ts';
import type { FitHistory } from '../../fit/fit-history.ts';
import type { FitOptions } from '../../fit/fit-options.ts';
import { optimizerTensors } from '../../model/optimizer-state.ts';
import { Ring } from '../../ring/ring.ts';
import { allReduceStrategy } from '../../strategy/all-reduce/all-reduce-strategy.ts';
import { type ServerWorld, startServers } from '../testing/server-world.ts';
import { parameterServerStrategy } from '../worker/parameter-server-strategy.ts';
import type { ParameterServer } from './serve.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

interface RunningWorld {
  readonly servers: readonly ParameterServer[];
  /** Creates a worker process's environment. Called each time the worker starts. */
  worker(rank: number): FitEnvironment & { readonly reports: Report[]; readonly lost: string[] };
}

async function start({ everySteps = 0, ...world }: ServerWorld & { readonly everySteps?: number }): Promise<RunningWorld> {
  const { generation = 1, checkpoints } = world;
  const { servers, optionsOf } = await startServers(world);
  const storage = new FileStorage();
  return {
    servers,
    worker(rank) {
      const reports: Report[] = [];
      const lost: string[] = [];
      let runs = 0;
      return {
        ...{ tf, storage, reports, lost, generation, jobId: 'application_1_0001', summaries: null },
        phase: new Phases('application_1_0001').begin('fit'),
        strategy: parameterServerStrategy({
          ...optionsOf(rank),
          onLost: (server, cause) => lost.push(`${server} ${cause}`),
          nextRun: () => {
            runs++;
            return runs;
          },
        }),
        checkpoints: checkpoints === undefined ? null : { store: new CheckpointStore(storage, fileUri(checkpoints)), everySteps, keep: 3 },
        report: (report) => reports.push(report),
      };
    },
  };
}

const values = Float32Array.from({ length: 480 }, (_, index) => Math.cos(index * 1.3));
const data: TrainingData = { x: { values, shape: [120, 4] }, y: { values: values.subarray(0, 120), shape: [120, 1] } };

function model(optimizer: tf.Optimizer | string = 'sgd', seed = 7, units = 6): tf.LayersModel {
  const made = tf.sequential();
  const kernelInitializer = () => tf.initializers.glorotUniform({ seed });
  made.add(tf.layers.dense({ name: 'first', units, activation: 'tanh', inputShape: [4], kernelInitializer: kernelInitializer() }));
  made.add(tf.layers.dense({ name: 'second', units: 1, kernelInitializer: kernelInitializer() }));
  made.compile({ optimizer: optimizer as tf.Optimizer, loss: 'meanSquaredError', metrics: ['mse'] });
  return made;
}

const weightsOf = (trained: tf.LayersModel) => trained.getWeights().map((weight) => Array.from(weight.dataSync()));
const flat = (trained: tf.LayersModel) => weightsOf(trained).flat();
const distance = (one: readonly number[], other: readonly number[]) =>
  Math.max(...one.map((value, index) => Math.abs(value - (other[index] as number))));

async function trainAlone(
  trained: tf.LayersModel,
  options: FitOptions,
  checkpoints: FitEnvironment['checkpoints'] = null,
): Promise<FitHistory> {
  const ring = await Ring.join({
    ...{ rank: 0, worldSize: 1, generation: 1, key: new Secret(new Uint8Array(0)), addresses: [], onLost: () => {} },
    listener: { fd: null, host: '127.0.0.1', port: 0 },
  });
  const environment = { tf, strategy: allReduceStrategy(ring), generation: 1, jobId: '', summaries: null, checkpoints };
  const phase = new Phases('').begin('fit');
  return await fitModel({ ...environment, phase, storage: new FileStorage(), report: () => {} }, trained, data, options);
}

const OPTIMIZERS: Record<string, () => tf.Optimizer> = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.05, 0.9, true),
  adagrad: () => tf.train.adagrad(0.1),
  adadelta: () => tf.train.adadelta(0.5),
  adam: () => tf.train.adam(0.01),
  adamax: () => tf.train.adamax(0.01),
  rmsprop: () => tf.train.rmsprop(0.01, 0.9, 0.5),
};

describe('one worker with parameter servers trains like a worker without servers', () => {
  test.each(Object.keys(OPTIMIZERS))('%s', async (name) => {
    const make = OPTIMIZERS[name] as () => tf.Optimizer;
    const alone = model(make());
    const history = await trainAlone(alone, { epochs: 3, batchSize: 16, seed: 3 });
    const world = await start({ workers: 1, servers: 3 });
    const remote = model(make());
    const result = await fitModel(world.worker(0), remote, data, { epochs: 3, batchSize: 16, seed: 3 });
    expect(distance(flat(remote), flat(alone))).toBe(0);
    expect(result.steps).toBe(history.steps);
    expect(result.history).toEqual(history.history);
    expect(remote.optimizer.iterations).toBe(alone.optimizer.iterations);
  });

  test('a variable may be split over the servers', async () => {
    const alone = model(tf.train.adam(0.01), 5, 6000);
    await trainAlone(alone, { epochs: 1, batchSize: 60 });
    const world = await start({ workers: 1, servers: 3 });
    const remote = model(tf.train.adam(0.01), 5, 6000);
    await fitModel(world.worker(0), remote, data, { epochs: 1, batchSize: 60 });
    expect(distance(flat(remote), flat(alone))).toBe(0);
  });

  test('layers may be placed on chosen servers', async () => {
    const alone = model(tf.train.adam(0.01));
    await trainAlone(alone, { epochs: 1, batchSize: 60 });
    const world = await start({ workers: 1, servers: 3 });
    const remote = model(tf.train.adam(0.01));
    const placed: string[] = [];
    const placement = (variable: string, layer: string) => {
      placed.push(`${variable} of ${layer}`);
      return layer === 'first' ? 2 : null;
    };
    await fitModel(world.worker(0), remote, data, { epochs: 1, batchSize: 60, placement });
    expect(distance(flat(remote), flat(alone))).toBe(0);
    expect(placed).toEqual([
      expect.stringMatching(/kernel.* of first/),
      expect.stringMatching(/bias.* of first/),
      expect.stringMatching(/ of second/),
      expect.stringMatching(/ of second/),
    ]);
    await expect(fitModel(world.worker(0), model(), data, { placement: () => 3 })).rejects.toThrow('the job has only the servers 0 to 2');
  });

  test('the learning rate may change during training', async () => {
    for (const make of [OPTIMIZERS.sgd, OPTIMIZERS.adam] as (() => tf.Optimizer)[]) {
      const change = (trained: tf.LayersModel): FitOptions => ({
        epochs: 2,
        batchSize: 60,
        callbacks: {
          onEpochEnd: () => {
            const optimizer = trained.optimizer as unknown as { learningRate: number; setLearningRate?(rate: number): void };
            optimizer.setLearningRate?.(0.003);
            optimizer.learningRate = 0.003;
          },
        },
      });
      const alone = model(make());
      await trainAlone(alone, change(alone));
      const world = await start({ workers: 1, servers: 2 });
      const remote = model(make());
      await fitModel(world.worker(0), remote, data, change(remote));
      expect(distance(flat(remote), flat(alone))).toBe(0);
    }
  });
});

const slotsOf = (trained: tf.LayersModel) =>
  optimizerTensors(
    tf,
    trained.optimizer,
    trained.trainableWeights.map((weight) => weight.read() as tf.Variable),
  ).map(({ variable }) => Array.from(variable.dataSync()));

async function trainPlainly(trained: tf.LayersModel, epochs: number): Promise<void> {
  const [x, y] = [tf.tensor2d(values, [120, 4]), tf.tensor2d(values.subarray(0, 120), [120, 1])];
  await trained.fit(x, y, { epochs, batchSize: 16, shuffle: false, verbose: 0 });
}

function expectClose(one: readonly number[][], other: readonly number[][]): void {
  expect(one.map(({ length }) => length)).toEqual(other.map(({ length }) => length));
  expect(distance(one.flat(), other.flat())).toBeLessThan(1e-6);
}

describe('several fits of one compiled model keep the state of its optimizer, as in TensorFlow.js', () => {
  test.each(Object.keys(OPTIMIZERS))('%s', async (name) => {
    const make = OPTIMIZERS[name] as () => tf.Optimizer;
    const [alone, remote] = [model(make()), model(make())];
    const world = await start({ workers: 1, servers: 3 });
    const worker = world.worker(0);
    for (const epochs of [2, 1, 1]) {
      await trainPlainly(alone, epochs);
      await fitModel(worker, remote, data, { epochs, batchSize: 16, shuffle: false });
      expectClose(weightsOf(remote), weightsOf(alone));
      expectClose(slotsOf(remote), slotsOf(alone));
    }
    // Slots affect the weights only in the next step.
    await trainPlainly(alone, 1);
    await trainPlainly(remote, 1);
    expectClose(weightsOf(remote), weightsOf(alone));
  });

  test('a layer may be frozen for one fit and unfrozen for the next', async () => {
    for (const make of [() => tf.train.momentum(0.05, 0.9), () => tf.train.adam(0.01)]) {
      const [alone, remote] = [model(make()), model(make())];
      const world = await start({ workers: 1, servers: 2 });
      const worker = world.worker(0);
      for (const trainable of [true, false, true]) {
        for (const each of [alone, remote]) {
          (each.layers[0] as tf.layers.Layer).trainable = trainable;
        }
        await trainPlainly(alone, 1);
        await fitModel(worker, remote, data, { batchSize: 16, shuffle: false });
        expectClose(weightsOf(remote), weightsOf(alone));
        expectClose(slotsOf(remote), slotsOf(alone));
      }
    }
  });

  test('several workers may train variables that are split over the servers', async () => {
    const world = await start({ workers: 2, servers: 3, staleness: 0 });
    const workers = [world.worker(0), world.worker(1)];
    const models = [model(tf.train.adam(0.01), 5, 6000), model(tf.train.adam(0.01), 6, 6000)];
    for (const epochs of [1, 1]) {
      await Promise.all(models.map((each, rank) => fitModel(workers[rank] as FitEnvironment, each, data, { epochs, batchSize: 60 })));
      const [first, second] = models.map(slotsOf);
      expect(second).toEqual(first);
    }
    expect((models[1] as tf.LayersModel).optimizer.iterations).toBe(4);
  });

  test('a worker may be replaced between two fits', async () => {
    const world = await start({ workers: 1, servers: 2 });
    const [alone, remote] = [model(tf.train.adam(0.01)), model(tf.train.adam(0.01))];
    await trainPlainly(alone, 2);
    await fitModel(world.worker(0), remote, data, { batchSize: 16, shuffle: false });
    const [replacement, worker] = [model(tf.train.adam(0.01), 99), world.worker(0)];
    for (const _ of [1, 2]) {
      await fitModel(worker, replacement, data, { batchSize: 16, shuffle: false });
    }
    expectClose(weightsOf(replacement), weightsOf(alone));
    expectClose(slotsOf(replacement), slotsOf(alone));
  });
});

describe('a server applies each update with the learning rate of fit', () => {
  /** Creates a model with one weight, to which each sgd update adds the learning rate. */
  const mover = (rate = 1) => {
    const made = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1], useBias: false, kernelInitializer: 'zeros' })] });
    made.compile({ optimizer: tf.train.sgd(rate), loss: (_, predicted) => tf.neg(tf.mean(predicted, -1)) });
    return made;
  };
  const ones: TrainingData = {
    x: { values: new Float32Array(40).fill(1), shape: [40, 1] },
    y: { values: new Float32Array(40), shape: [40, 1] },
  };

  test.each([null, 0, 2])('the learning rate of fit applies even if a worker is ahead of the chief (staleness %s)', async (staleness) => {
    const world = await start({ workers: 2, servers: 2, staleness });
    const models = [mover(), mover()];
    const steps = [0, 0];
    await Promise.all(
      models.map((each, rank) =>
        fitModel(world.worker(rank), each, ones, {
          ...{ batchSize: 2, learningRate: 0.001 },
          callbacks: {
            onBatchBegin: async (batch) => {
              if (rank === 0 && batch === 0) {
                await expect.poll(() => steps[1]).toBeGreaterThanOrEqual(staleness === null ? 5 : staleness);
              }
            },
            onBatchEnd: () => {
              steps[rank] = (steps[rank] as number) + 1;
            },
          },
        }),
      ),
    );
    for (const each of models) {
      expect(flat(each)[0]).toBeCloseTo(0.02, 6);
    }
  });

  test('the learning rate follows the schedule and the step of the worker that pushes the update', async () => {
    const world = await start({ workers: 2, servers: 2 });
    const models = [mover(), mover()];
    const learningRate: FitOptions['learningRate'] = ({ step, initial }) => (step < 5 ? 0.001 : initial / 100);
    await Promise.all(models.map((each, rank) => fitModel(world.worker(rank), each, ones, { batchSize: 2, learningRate })));
    expect(flat(models[0] as tf.LayersModel)[0]).toBeCloseTo(2 * (5 * 0.001 + 5 * 0.01), 6);
  });

  test('the learning rate of fit applies after training has resumed from a checkpoint', async () => {
    const checkpoints = await folder();
    const options: FitOptions = { batchSize: 2, learningRate: ({ step }) => (step < 10 ? 0.001 : 0.0001) };
    const first = await start({ workers: 2, servers: 2, checkpoints });
    await Promise.all([0, 1].map((rank) => fitModel(first.worker(rank), mover(), ones, { ...options, epochs: 1 })));
    const second = await start({ workers: 2, servers: 1, checkpoints, generation: 2 });
    const models = [mover(), mover()];
    await Promise.all(models.map((each, rank) => fitModel(second.worker(rank), each, ones, { ...options, epochs: 2 })));
    expect(flat(models[1] as tf.LayersModel)[0]).toBeCloseTo(2 * (10 * 0.001 + 10 * 0.0001), 6);
  });
});

test('a custom optimizer is rejected', async () => {
  class Own extends tf.SGDOptimizer {}
  const world = await start({ workers: 1, servers: 1 });
  await expect(fitModel(world.worker(0), model(new Own(0.1)), data)).rejects.toThrow('parameter servers do not support the optimizer Own');
});

test('with staleness 0, workers compute each step on equal weights, and sgd sums their gradients', async () => {
  const alone = model(tf.train.sgd(0.1));
  await trainAlone(alone, { epochs: 2, batchSize: 24, seed: 3 });
  const world = await start({ workers: 3, servers: 2, staleness: 0 });
  const models = [0, 1, 2].map((rank) => model(tf.train.sgd(0.1 / 3), 7 + rank));
  const seen: number[][] = [];
  await Promise.all(
    models.map((each, rank) =>
      fitModel(world.worker(rank), each, data, {
        ...{ epochs: 2, batchSize: 8, seed: 3 },
        callbacks: {
          onBatchEnd: (_batch, logs) => {
            const step = Number((logs as { step?: number }).step);
            seen[step] ??= flat(each);
            expect(flat(each)).toEqual(seen[step]);
          },
        },
      }),
    ),
  );
  expect(seen).toHaveLength(11);
  expect(flat(models[1] as tf.LayersModel)).toEqual(flat(models[0] as tf.LayersModel));
  expect(distance(flat(models[0] as tf.LayersModel), flat(alone))).toBeLessThan(1e-6);
});

test.each([null, 2])('workers at different speeds end with equal weights (staleness %s)', async (staleness) => {
  const world = await start({ workers: 3, servers: 2, staleness });
  const models = [0, 1, 2].map((rank) => model(tf.train.sgd(0.05), 7 + rank));
  const steps = [0, 0, 0];
  let ahead = 0;
  const histories = await Promise.all(
    models.map((each, rank) =>
      fitModel(world.worker(rank), each, data, {
        ...{ epochs: 4, batchSize: 8 },
        callbacks: {
          onBatchEnd: async () => {
            steps[rank] = (steps[rank] as number) + 1;
            ahead = Math.max(ahead, (steps[rank] as number) - Math.min(...steps));
            // Waits until the other workers have advanced as far as the staleness allows. During a step, they have begun one step more than
            // they have finished.
            if (rank === 2 && steps[2] === 1) {
              await expect.poll(() => steps[0]).toBeGreaterThanOrEqual(staleness === null ? 5 : 1 + staleness);
            }
          },
        },
      }),
    ),
  );
  expect(histories.map((history) => history.steps)).toEqual([20, 20, 20]);
  for (const each of models) {
    expect(flat(each)).toEqual(flat(models[0] as tf.LayersModel));
    expect(each.optimizer.iterations).toBe(60);
  }
  const losses = histories[0]?.history.loss as number[];
  expect(losses.at(-1)).toBeLessThan(losses[0] as number);
  if (staleness !== null) {
    expect(ahead).toBeLessThanOrEqual(staleness + 1);
  }
});

test('if the last batch is too small for all workers, some workers take the step without examples', async () => {
  const world = await start({ workers: 2, servers: 2, staleness: 1 });
  const part: TrainingData = {
    x: { values: values.subarray(0, 84), shape: [21, 4] },
    y: { values: values.subarray(0, 21), shape: [21, 1] },
  };
  const models = [0, 1].map(() => model(tf.train.sgd(0.01)));
  const histories = await Promise.all(models.map((each, rank) => fitModel(world.worker(rank), each, part, { epochs: 2, batchSize: 10 })));
  expect(histories.map(({ steps }) => steps)).toEqual([4, 4]);
  // In the second step of each epoch, one worker does not push gradients.
  expect(models.map(({ optimizer }) => optimizer.iterations)).toEqual([6, 6]);
  for (const { history } of histories) {
    expect(history.loss?.every((loss) => loss > 0.05)).toBe(true);
  }
  expect(flat(models[1] as tf.LayersModel)).toEqual(flat(models[0] as tf.LayersModel));
});

test('if one worker stops, all workers end training within a few steps', async () => {
  const checkpoints = await folder();
  const world = await start({ workers: 2, servers: 2, staleness: 1, checkpoints });
  const models = [0, 1].map(() => model(tf.train.sgd(0.01)));
  const histories = await Promise.all(
    models.map((each, rank) =>
      fitModel(world.worker(rank), each, data, {
        ...{ epochs: 20, batchSize: 10 },
        callbacks: {
          onBatchEnd: (_batch, logs) => {
            if (rank === 1 && (logs as { step?: number }).step === 9) {
              each.stopTraining = true;
            }
          },
        },
      }),
    ),
  );
  for (const { steps, endedEarly } of histories) {
    expect(steps).toBeGreaterThanOrEqual(9);
    expect(steps).toBeLessThanOrEqual(13);
    expect(endedEarly).toMatch(/^a callback has set model.stopTraining \(step \d+\)$/);
    expect(endedEarly).toBe(histories[0]?.endedEarly);
  }
  expect(flat(models[1] as tf.LayersModel)).toEqual(flat(models[0] as tf.LayersModel));
  const [newest] = await new CheckpointStore(new FileStorage(), fileUri(checkpoints)).steps();
  expect(newest).toBe(histories[0]?.steps);
});

describe('checkpoints', () => {
  test('a new generation resumes from the previous one, with another number of servers', async () => {
    const undisturbed = model(tf.train.adam(0.01), 5, 6000);
    await trainAlone(undisturbed, { epochs: 3, batchSize: 16 });

    const checkpoints = await folder();
    const first = await start({ workers: 1, servers: 3, checkpoints, everySteps: 5 });
    const dead = fitModel(first.worker(0), model(tf.train.adam(0.01), 5, 6000), data, {
      ...{ epochs: 3, batchSize: 16 },
      callbacks: {
        onBatchEnd: async (_batch, logs) => {
          if ((logs as { step?: number }).step === 13) {
            const store = new CheckpointStore(new FileStorage(), fileUri(checkpoints));
            await expect.poll(() => store.steps()).toContain(10);
            throw new Error('dies here');
          }
        },
      },
    });
    await expect(dead).rejects.toThrow('dies here');
    const second = await start({ workers: 1, servers: 2, generation: 2, checkpoints, everySteps: 5 });
    const trained = model(tf.train.adam(0.01), 99, 6000);
    const worker = second.worker(0);
    const history = await fitModel(worker, trained, data, { epochs: 3, batchSize: 16 });
    expect(history.steps).toBe(24);
    expect(worker.reports).toContainEqual({ type: 'notice', message: expect.stringMatching(/training resumes from .*step-10, step 10/) });
    expect(worker.reports).toContainEqual({ type: 'checkpoint', step: 24 });
    expect(distance(flat(trained), flat(undisturbed))).toBe(0);
  });

  test('all-reduce and parameter servers can resume from checkpoints of the other strategy', async () => {
    const undisturbed = model(tf.train.adam(0.01), 5, 6000);
    await trainAlone(undisturbed, { epochs: 3, batchSize: 16 });

    const checkpoints = await folder();
    const store = new CheckpointStore(new FileStorage(), fileUri(checkpoints));
    const world = await start({ workers: 1, servers: 3, checkpoints });
    await fitModel(world.worker(0), model(tf.train.adam(0.01), 5, 6000), data, { epochs: 1, batchSize: 16 });
    expect((await store.openCheckpoint(8)).manifest.files).toHaveLength(4);

    const together = model(tf.train.adam(0.01), 99, 6000);
    await trainAlone(together, { epochs: 2, batchSize: 16 }, { store, everySteps: 0, keep: 3 });
    expect(await store.steps()).toEqual([16, 8]);

    const again = await start({ workers: 1, servers: 2, checkpoints, generation: 2 });
    const last = model(tf.train.adam(0.01), 98, 6000);
    await fitModel(again.worker(0), last, data, { epochs: 3, batchSize: 16 });
    expect(distance(flat(last), flat(undisturbed))).toBe(0);
  });

  test('all workers adopt the untrained weights of the chief at the end', async () => {
    const make = (seed: number) => {
      const made = tf.sequential();
      made.add(
        tf.layers.dense({ units: 3, inputShape: [4], trainable: false, kernelInitializer: tf.initializers.glorotUniform({ seed }) }),
      );
      made.add(tf.layers.batchNormalization());
      made.add(tf.layers.dense({ units: 1, kernelInitializer: tf.initializers.glorotUniform({ seed }) }));
      made.compile({ optimizer: tf.train.momentum(0.05, 0.9), loss: 'meanSquaredError' });
      return made;
    };
    const checkpoints = await folder();
    const world = await start({ workers: 2, servers: 2, checkpoints });
    const models = [make(1), make(2)];
    const frozen = weightsOf(models[0] as tf.LayersModel)[4];
    await Promise.all(models.map((each, rank) => fitModel(world.worker(rank), each, data, { epochs: 2, batchSize: 10 })));
    const [first, second] = models.map(weightsOf) as [number[][], number[][]];
    expect(second).toEqual(first);
    expect(first.some((weight) => JSON.stringify(weight) === JSON.stringify(frozen))).toBe(true);

    const again = await start({ workers: 1, servers: 3, checkpoints, generation: 2 });
    const restored = make(3);
    await fitModel(again.worker(0), restored, data, { epochs: 2, batchSize: 10 });
    expect(weightsOf(restored)).toEqual(first);
    // Training had already finished, so the last checkpoint is not rewritten.
    const store = new CheckpointStore(new FileStorage(), fileUri(checkpoints));
    expect(await store.openCheckpoint((await store.steps())[0] ?? 0)).toMatchObject({
      manifest: { generation: 1 },
      position: { final: true },
    });
  });

  test('workers skip a damaged checkpoint and reject a checkpoint of another model', async () => {
    const checkpoints = await folder();
    const world = await start({ workers: 1, servers: 2, checkpoints, everySteps: 4 });
    await fitModel(world.worker(0), model(), data, { epochs: 2, batchSize: 20 });
    const store = new CheckpointStore(new FileStorage(), fileUri(checkpoints));
    expect((await store.steps())[0]).toBe(12);
    await writeFile(join(checkpoints, 'step-12', 'tensors-00001-of-00003.bin'), 'damaged');
    const again = await start({ workers: 1, servers: 2, checkpoints, generation: 2 });
    const worker = again.worker(0);
    const history = await fitModel(worker, model(), data, { epochs: 2, batchSize: 20 });
    expect(history.steps).toBe(12);
    expect(worker.reports).toContainEqual({ type: 'notice', message: expect.stringContaining('checkpoint step-12 is skipped') });
    const third = await start({ workers: 1, servers: 2, checkpoints, generation: 3 });
    await expect(fitModel(third.worker(0), model('sgd', 7, 9), data)).rejects.toThrow('does not fit this model');
    await expect(fitModel(third.worker(0), model(tf.train.adam()), data)).resolves.toBeDefined();
  });
});

describe('when a process fails', () => {
  const dieAt = (step: number): FitOptions['callbacks'] => ({
    onBatchEnd: (_batch, logs) => {
      if ((logs as { step?: number }).step === step) {
        throw new Error('dies here');
      }
    },
  });

  test.each([null, 1])('a worker is replaced alone and resumes at its last reported position (staleness %s)', async (staleness) => {
    const world = await start({ workers: 2, servers: 2, staleness });
    const options = { epochs: 3, batchSize: 10 };
    const models = [model('sgd'), model('sgd')];
    const [survivor, dying] = [
      fitModel(world.worker(0), models[0] as tf.LayersModel, data, options),
      fitModel(world.worker(1), models[1] as tf.LayersModel, data, {
        ...options,
        callbacks: {
          onBatchEnd: async (batch, logs) => {
            // The pause gives the worker time to report its position.
            await new Promise((resolve) => setTimeout(resolve, 60));
            await (dieAt(9) as { onBatchEnd(batch: number, logs?: tf.Logs): Promise<void> }).onBatchEnd(batch, logs);
          },
        },
      }),
    ];
    await expect(dying).rejects.toThrow('dies here');
    const replacement = model('sgd', 55);
    const first: number[] = [];
    const history = await fitModel(world.worker(1), replacement, data, {
      ...options,
      callbacks: { onBatchEnd: (_batch, logs) => void first.push(Number((logs as { step?: number }).step)) },
    });
    expect(first[0]).toBeGreaterThan(1);
    expect(first[0]).toBeLessThanOrEqual(10);
    expect(history.steps).toBe(18);
    expect((await survivor).steps).toBe(18);
    expect(flat(replacement)).toEqual(flat(models[0] as tf.LayersModel));
  });

  test('the other workers continue if a lost worker is not replaced', async () => {
    const world = await start({ workers: 2, servers: 2, staleness: 1, timeouts: { replaceMs: 200 } });
    const options = { epochs: 3, batchSize: 10 };
    const [survivor, dying] = [
      fitModel(world.worker(0), model('sgd'), data, options),
      fitModel(world.worker(1), model('sgd'), data, { ...options, ...{ callbacks: dieAt(3) as object } }),
    ];
    await expect(dying).rejects.toThrow('dies here');
    expect((await survivor).steps).toBe(18);
  });

  test('the chief can be replaced alone as well', async () => {
    const checkpoints = await folder();
    const world = await start({ workers: 2, servers: 2, checkpoints, everySteps: 3 });
    const options = { epochs: 3, batchSize: 10 };
    const make = (seed: number) => {
      const made = tf.sequential();
      made.add(tf.layers.batchNormalization({ inputShape: [4] }));
      made.add(tf.layers.dense({ units: 1, kernelInitializer: tf.initializers.glorotUniform({ seed }) }));
      made.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
      return made;
    };
    const averages = (of: tf.LayersModel) => weightsOf(of).slice(-2);
    const survivor = fitModel(world.worker(1), make(1), data, options);
    const first = make(2);
    const seen: number[][][] = [];
    const callbacks: FitOptions['callbacks'] = {
      onBatchEnd: (batch, logs) => {
        seen.push(averages(first));
        return (dieAt(7) as { onBatchEnd(batch: number, logs?: tf.Logs): void }).onBatchEnd(batch, logs);
      },
    };
    await expect(fitModel(world.worker(0), first, data, { ...options, callbacks })).rejects.toThrow('dies here');
    const chief = world.worker(0);
    const trained = make(77);
    const begins: number[][][] = [];
    await fitModel(chief, trained, data, { ...options, callbacks: { onTrainBegin: () => void begins.push(averages(trained)) } });
    await survivor;
    // The replacement begins with the values at the last checkpoint or later.
    expect(seen.slice(5)).toContainEqual(begins[0]);
    expect(chief.reports).toContainEqual({ type: 'checkpoint', step: 18 });
  });

  test('a worker that is replaced after the end of the run gets the same weights', async () => {
    const world = await start({ workers: 2, servers: 2 });
    const options = { epochs: 2, batchSize: 20 };
    const models = [model('adam'), model('adam')];
    const tensors: number[] = [];
    const callbacks: FitOptions['callbacks'] = { onEpochEnd: () => void tensors.push(tf.memory().numTensors) };
    await Promise.all(models.map((each, rank) => fitModel(world.worker(rank), each, data, { ...options, callbacks })));
    for (const each of models) {
      each.optimizer.dispose();
    }
    // The workers' powers of beta, the servers' powers of beta, and the servers' slots (two for each of four weights) are freed.
    await expect.poll(() => tf.memory().numTensors).toBeLessThanOrEqual(Math.min(...tensors) - 4 - 4 - 8);
    for (const rank of [1, 0]) {
      const replacement = model('adam', 55);
      const history = await fitModel(world.worker(rank), replacement, data, options);
      expect(history.steps).toBe(6);
      expect(flat(replacement)).toEqual(flat(models[0] as tf.LayersModel));
    }
  });

  test('a worker cannot be replaced in a run that ended more than four runs ago', async () => {
    const world = await start({ workers: 1, servers: 1 });
    const worker = world.worker(0);
    for (let run = 1; run <= 8; run++) {
      await fitModel(worker, model('adam'), data, { epochs: 1, batchSize: 60 });
    }
    await expect(fitModel(world.worker(0), model('adam'), data)).rejects.toMatchObject({
      code: 'RING_MISMATCH',
      message: expect.stringContaining('must replay run 1, but this server no longer holds the run'),
    });
  });

  test('a worker reports a lost server immediately, and its requests fail after the grace period', async () => {
    const world = await start({ workers: 1, servers: 2 });
    const worker = world.worker(0);
    const training = fitModel(worker, model('sgd'), data, {
      ...{ epochs: 3, batchSize: 10 },
      callbacks: {
        onBatchEnd: (_batch, logs) => {
          if ((logs as { step?: number }).step === 4) {
            world.servers[1]?.close();
          }
        },
      },
    });
    await expect.poll(() => worker.lost).toEqual([expect.stringMatching(/^1 (closed|broke) the connection/)]);
    await expect(training).rejects.toMatchObject({ code: 'PEER_LOST', message: expect.stringMatching(/^parameter server 1/) });
  });

  test('a failed last checkpoint is not retried', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    let tries: number | null = null;
    const storage = counted(new FileStorage(), async () => {
      if (tries !== null) {
        tries++;
        throw new TonyError('HDFS_UNREACHABLE', 'the NameNode is unavailable');
      }
    });
    const world = await start({ workers: 1, servers: 2 });
    const worker = world.worker(0);
    const checkpoints = { store: new CheckpointStore(storage, fileUri(await folder())), everySteps: 1, keep: 3 };
    const callbacks: FitOptions['callbacks'] = {
      onBatchBegin: () => {
        tries = 0;
      },
      onBatchEnd: async (_batch, { step }) => {
        if (step === 1) {
          // The checkpoint of a step is written after the step's callbacks.
          return;
        }
        const notice = expect.objectContaining({ type: 'notice', message: expect.stringMatching(/checkpoints are retried/) });
        await expect.poll(() => worker.reports).toContainEqual(notice);
        throw new Error('dies here');
      },
    };
    await expect(fitModel({ ...worker, checkpoints }, model(), data, { callbacks })).rejects.toThrow('dies here');
    await expect.poll(() => tries).toBe(2);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(tries).toBe(2);
  });

  test('all workers end with equal weights if workers fail at any step and are replaced', async () => {
    const schedule = fc.record({
      workers: fc.integer({ min: 1, max: 3 }),
      servers: fc.integer({ min: 1, max: 3 }),
      staleness: fc.constantFrom(null, 0, 1, 3),
      deaths: fc.array(fc.record({ rank: fc.nat(2), step: fc.integer({ min: 1, max: 12 }) }), { maxLength: 4 }),
    });
    await fc.assert(
      fc.asyncProperty(schedule, async ({ workers, servers, staleness, deaths }) => {
        const world = await start({ workers, servers, staleness });
        const live = async (rank: number): Promise<number[]> => {
          const due = deaths.filter((death) => death.rank === rank).map(({ step }) => step);
          for (;;) {
            const trained = model(tf.train.momentum(0.05, 0.5), rank + 1);
            const step = due.shift();
            const callbacks = step === undefined ? {} : { callbacks: dieAt(step) as object };
            const over = await fitModel(world.worker(rank), trained, data, { epochs: 2, batchSize: 20, ...callbacks }).then(
              () => true,
              (error: Error) => {
                expect(error.message).toBe('dies here');
                return false;
              },
            );
            if (over) {
              return flat(trained);
            }
          }
        };
        const ends = await Promise.all(Array.from({ length: workers }, (_, rank) => live(rank)));
        for (const end of ends) {
          expect(end.every(Number.isFinite)).toBe(true);
          expect(end).toEqual(ends[0]);
        }
      }),
      { numRuns: 12 },
    );
  });

  test('after a server fails at any step, a new generation ends like an uninterrupted run', async () => {
    const options = { epochs: 3, batchSize: 20 };
    const undisturbed = model(tf.train.adam(0.01));
    await trainAlone(undisturbed, options);
    const schedule = fc.record({ step: fc.integer({ min: 1, max: 17 }), server: fc.nat(1), everySteps: fc.integer({ min: 1, max: 6 }) });
    await fc.assert(
      fc.asyncProperty(schedule, async ({ step, server, everySteps }) => {
        const checkpoints = await folder();
        const first = await start({ workers: 1, servers: 2, checkpoints, everySteps });
        const dying = fitModel(first.worker(0), model(tf.train.adam(0.01)), data, {
          ...options,
          callbacks: {
            onBatchEnd: (_batch, logs) => {
              if ((logs as { step?: number }).step === step) {
                first.servers[server]?.close();
              }
            },
          },
        });
        await expect(dying).rejects.toMatchObject({ code: 'PEER_LOST' });
        const second = await start({ workers: 1, servers: 3, generation: 2, checkpoints, everySteps });
        const trained = model(tf.train.adam(0.01), 99);
        await fitModel(second.worker(0), trained, data, options);
        const fresh = model(tf.train.adam(0.01), 99);
        await trainAlone(fresh, options);
        const expected = [flat(undisturbed), flat(fresh)];
        expect(expected.map((each) => distance(flat(trained), each))).toContain(0);
      }),
      { numRuns: 8 },
    );
  });
});
