import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, test } from 'vitest';
import { CheckpointStore } from '../../../contract/checkpoint/checkpoint-store.ts';
import type { Report } from '../../../contract/process/task-context.ts';
import { folder } from '../../../contract/testing/folder.ts';
import type { Json } from '../../../platform/json-value.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { fileUri } from '../../../storage/uri.ts';
import { Phases } from '../../checkpoint/phases.ts';
import { StopOrders } from '../../checkpoint/stop-order.ts';
import { fromArray } from '../../data/sources/sources.ts';
import { type LoopEnvironment, TrainingLoop } from '../../fit/loop.ts';
import type { LoopOptions } from '../../fit/loop-options.ts';
import { UnfinishedTraining } from '../../fit/unfinished-training.ts';
import { CustomSteps } from '../../strategy/all-reduce/custom-steps.ts';
import { RingLoop } from '../../strategy/all-reduce/ring-loop.ts';
import type { LoopContext, LoopStrategy } from '../../strategy/loop-strategy.ts';
import { weightsOf } from '../../testing/fit-world.ts';
import { ringOf } from '../../testing/resources.ts';
import { openWorker, startServers } from '../testing/server-world.ts';
import type { ParameterServerWorker } from './parameter-server-worker.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

const storage = new FileStorage();

interface World {
  readonly rank: number;
  readonly reports: Report[];
  open<T = null, State extends Json = null>(options: LoopOptions<T, State>): Promise<TrainingLoop<T, State>>;
}

interface Place {
  readonly rank: number;
  readonly worldSize: number;
  readonly dir: string | null;
  readonly generation: number;
}

function worldOf({ rank, worldSize, dir, generation }: Place, openStrategy: (context: LoopContext) => LoopStrategy): World {
  const reports: Report[] = [];
  const phases = new Phases('application_1_0001');
  const store = dir === null ? null : new CheckpointStore(storage, fileUri(dir));
  const open = async <T, State extends Json>(options: LoopOptions<T, State>) => {
    const environment: LoopEnvironment = {
      ...{ tf, storage, generation, jobId: 'application_1_0001', rank, worldSize, openStrategy, stepsTogether: false },
      phase: phases.begin('loop', options.name),
      checkpoints: store === null ? null : { store, everySteps: 3, keep: 2 },
      stopOrders: store === null ? null : new StopOrders(storage, store.dir),
      onReport: () => {},
      report: (report) => reports.push(report),
      onNotice: (message) => reports.push({ type: 'notice', message }),
      unfinished: new UnfinishedTraining(),
    };
    return await TrainingLoop.open(environment, options);
  };
  return { rank, reports, open };
}

interface Job {
  readonly workers?: number;
  readonly servers?: number;
  readonly staleness?: number | null;
  readonly dir?: string | null;
  readonly generation?: number;
}

type Program<R> = (world: World) => Promise<R>;

/** Starts a generation's servers. Returns a function that creates a new worker on each call, as a new process would. */
async function start(job: Job): Promise<(rank: number) => World & { readonly worker: ParameterServerWorker }> {
  const { workers = 1, servers = 2, dir = null, generation = 1 } = job;
  const { optionsOf } = await startServers({ ...job, workers, servers });
  return (rank) => {
    const worker = openWorker(optionsOf(rank));
    return { ...worldOf({ rank, worldSize: workers, dir, generation }, (context) => worker.openLoop(context)), worker };
  };
}

async function byServers<R>(job: Job, program: Program<R>): Promise<R[]> {
  const process = await start(job);
  const outcomes = await Promise.allSettled(Array.from({ length: job.workers ?? 1 }, (_, rank) => program(process(rank))));
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') {
      throw outcome.reason;
    }
    return outcome.value;
  });
}

async function byRing<R>({ workers = 1, dir = null, generation = 1 }: Job, program: Program<R>): Promise<R[]> {
  const rings = await ringOf(workers);
  const ends = await Promise.all(
    rings.map((ring, rank) => {
      const steps = new CustomSteps(tf, ring, 'float32');
      return program(worldOf({ rank, worldSize: workers, dir, generation }, (context) => new RingLoop(ring, steps, context)));
    }),
  );
  for (const ring of rings) {
    ring.close();
  }
  return ends;
}

const DATA = Array.from({ length: 40 }, (_, index) => ({ xs: [0, 1, 2].map((place) => Math.sin(index * 3 + place)) }));
const BATCH = 4;

const dense = (units: number, seed: number, more: object = {}) =>
  tf.layers.dense({ units, activation: 'tanh', kernelInitializer: tf.initializers.glorotUniform({ seed }), ...more });

class Killed extends Error {}

const isSaved = (reports: readonly Report[], step: number) =>
  reports.some((report) => report.type === 'checkpoint' && report.step === step);

/** Trains a GAN with two optimizers. @param killedIn the iteration in which the process dies, after storing the previous checkpoint. */
const gan =
  (killedIn = -1) =>
  async ({ open, reports }: World) => {
    const generator = tf.sequential({ layers: [dense(4, 1, { inputShape: [2] }), tf.layers.batchNormalization(), dense(3, 2)] });
    const discriminator = tf.sequential({ layers: [dense(5, 3, { inputShape: [3] }), tf.layers.dropout({ rate: 0.3 }), dense(1, 4)] });
    const [forDiscriminator, forGenerator] = [tf.train.momentum(0.05, 0.9), tf.train.adam(0.02)];
    const logitOf = (x: tf.Tensor) => discriminator.apply(x, { training: true }) as tf.Tensor;
    const invent = (count: number) => generator.apply(tf.randomNormal([count, 2]), { training: true }) as tf.Tensor;
    const loop = await open({
      name: 'gan',
      models: { generator, discriminator },
      optimizers: { forDiscriminator, forGenerator },
      data: fromArray(DATA).shuffle(16).batch(BATCH),
      epochs: 2,
      seed: 5,
      state: { losses: [] as number[] },
    });
    const taken: number[] = [];
    for await (const { step } of loop) {
      taken.push(step);
      const discriminatorLoss = ({ xs }: { readonly xs: tf.Tensor }) =>
        tf.add(tf.mean(tf.softplus(tf.neg(logitOf(xs)))), tf.mean(tf.softplus(logitOf(invent(xs.shape[0] as number))))) as tf.Scalar;
      const loss = await loop.step(discriminatorLoss, forDiscriminator, { variables: discriminator });
      if (step === killedIn) {
        await expect.poll(() => isSaved(reports, step - (step % 3))).toBe(true);
        throw new Killed();
      }
      const generatorLoss = () => tf.mean(tf.softplus(tf.neg(logitOf(invent(BATCH))))) as tf.Scalar;
      if (step % 2 === 0) {
        await loop.step(generatorLoss, forGenerator, { variables: generator });
      }
      loop.state.losses.push(loss);
    }
    const { iterations } = forGenerator;
    return {
      weights: [...weightsOf(generator), ...weightsOf(discriminator)],
      losses: loop.state.losses,
      steps: loop.steps,
      taken,
      iterations,
    };
  };

function expectClose(one: readonly number[], other: readonly number[], digits = 5): void {
  expect(one).toHaveLength(other.length);
  for (const [index, value] of one.entries()) {
    expect(value).toBeCloseTo(other[index] as number, digits);
  }
}

describe('a GAN of one worker', () => {
  test('ends with the same weights as all-reduce', async () => {
    const [served] = await byServers({}, gan());
    const [ring] = await byRing({}, gan());
    expectClose(served?.weights ?? [], ring?.weights ?? [1]);
    expect(served?.steps).toBe(20);
  });

  test('gets the same weights after a kill as without an interruption', async () => {
    const [undisturbed] = await byServers({ dir: await folder() }, gan());
    const dir = await folder();
    await expect(byServers({ dir }, gan(7))).rejects.toThrow(Killed);
    const [resumed] = await byServers({ dir, servers: 3, generation: 2 }, gan());
    expect(resumed?.taken[0]).toBe(6);
    expect({ ...resumed, taken: [] }).toEqual({ ...undisturbed, taken: [] });
    const [again] = await byServers({ dir, generation: 3 }, gan());
    expect(again).toEqual({ ...undisturbed, taken: [] });
  });

  test('resumes from a checkpoint of all-reduce, and all-reduce resumes from a checkpoint of servers', async () => {
    const [undisturbed] = await byRing({ dir: await folder() }, gan());
    const [one, other] = [await folder(), await folder()];
    await expect(byRing({ dir: one }, gan(7))).rejects.toThrow(Killed);
    await expect(byServers({ dir: other }, gan(7))).rejects.toThrow(Killed);
    const [served] = await byServers({ dir: one, generation: 2 }, gan());
    const [ring] = await byRing({ dir: other, generation: 2 }, gan());
    for (const end of [served, ring]) {
      expect(end?.taken[0]).toBe(6);
      expectClose(end?.weights ?? [], undisturbed?.weights ?? [1]);
    }
  });
});

test('one worker computes the same as plain TensorFlow.js', async () => {
  const optimizers = () => [tf.train.adam(0.02), tf.train.momentum(0.01, 0.9)] as const;
  const make = () => tf.sequential({ layers: [dense(4, 1, { inputShape: [3] }), dense(1, 2)] });
  const lossOf = (model: tf.LayersModel, xs: tf.Tensor) => tf.mean(tf.square(tf.sub(model.apply(xs) as tf.Tensor, 0.5))) as tf.Scalar;
  const batches: number[][] = [];
  const [served] = await byServers({ servers: 3 }, async ({ open }) => {
    const [model, [first, second]] = [make(), optimizers()];
    const loop = await open({ models: model, optimizers: { first, second }, data: fromArray(DATA).batch(BATCH) });
    for await (const { step, batch } of loop) {
      batches.push([...(batch?.xs.dataSync() ?? [])]);
      await loop.step(({ xs }) => lossOf(model, xs), step % 2 === 0 ? first : second);
    }
    return weightsOf(model);
  });
  const [model, [first, second]] = [make(), optimizers()];
  for (const [step, numbers] of batches.entries()) {
    const xs = tf.tensor2d(numbers, [numbers.length / 3, 3]);
    const variables = model.trainableWeights.map((weight) => weight.read() as tf.Variable);
    (step % 2 === 0 ? first : second).minimize(() => lossOf(model, xs), false, variables);
  }
  expect(batches).toHaveLength(10);
  expectClose(served ?? [], weightsOf(model));
});

/** A program in which each worker has its own loss and its own part of the data. */
const inStep =
  (killedIn = -1) =>
  async ({ rank, open, reports }: World) => {
    const [variable, fixed] = [tf.variable(tf.tensor1d([rank, 2])), tf.variable(tf.scalar(rank), false)];
    const optimizer = tf.train.sgd(0.05);
    const data = fromArray(DATA.map((_, index) => ({ number: index / 40 }))).batch(2);
    const loop = await open({ variables: { variable, fixed }, optimizers: optimizer, data, epochs: 2 });
    const taken: number[] = [];
    for await (const { step } of loop) {
      taken.push(step);
      if (step === killedIn) {
        if (rank === 0) {
          await expect.poll(() => isSaved(reports, step - (step % 3))).toBe(true);
        }
        throw new Killed();
      }
      await loop.step(({ number }) => tf.sum(tf.square(tf.sub(variable, tf.mean(number)))) as tf.Scalar, optimizer);
    }
    return { weights: [...variable.dataSync(), ...fixed.dataSync()], steps: loop.steps, taken };
  };

test('two workers with staleness 0 get the same weights after a kill as without an interruption', async () => {
  const job = { workers: 2, staleness: 0 };
  const undisturbed = await byServers({ ...job, dir: await folder() }, inStep());
  const dir = await folder();
  await expect(byServers({ ...job, dir }, inStep(8))).rejects.toThrow(Killed);
  const resumed = await byServers({ ...job, dir, generation: 2 }, inStep());
  expect(resumed.map(({ taken }) => taken[0])).toEqual([6, 6]);
  for (const [rank, { weights, steps }] of resumed.entries()) {
    expect(weights).toEqual(resumed[0]?.weights);
    expect(weights[2]).toBe(0);
    expectClose(weights, undisturbed[rank]?.weights ?? []);
    expect(steps).toBe(20);
  }
});

test('stop() on one worker ends all workers, and the loop stays ended after a restart', async () => {
  const program =
    (stops: boolean) =>
    async ({ rank, open, reports }: World) => {
      const variable = tf.variable(tf.scalar(1));
      const optimizer = tf.train.sgd(1e-6);
      const loop = await open({ variables: { variable }, optimizers: optimizer, steps: 1_000_000 });
      for await (const { step } of loop) {
        await loop.step(() => tf.square(variable) as tf.Scalar, optimizer);
        if (stops && step === 4 && rank === 1) {
          loop.stop('the loss is small enough');
        }
      }
      return { steps: loop.steps, endedEarly: loop.endedEarly, value: variable.dataSync()[0], reports };
    };
  const dir = await folder();
  const ends = await byServers({ workers: 2, dir }, program(true));
  expect(ends[1]?.steps).toBe(5);
  for (const { endedEarly, value } of ends) {
    expect(endedEarly).toBe('the loss is small enough');
    expect(value).toBe(ends[0]?.value);
  }
  expect(ends[0]?.reports).toContainEqual({ type: 'early-end', step: ends[0]?.steps, reason: 'the loss is small enough' });
  const again = await byServers({ workers: 2, dir, generation: 2 }, program(false));
  for (const { steps, endedEarly, value } of again) {
    expect([steps, endedEarly, value]).toEqual([ends[0]?.steps, 'the loss is small enough', ends[0]?.value]);
  }
});

test('an iteration without examples changes nothing', async () => {
  const [value] = await byServers({}, async ({ open }) => {
    const variable = tf.variable(tf.scalar(1));
    const optimizer = tf.train.sgd(0.5);
    const loop = await open({ variables: { variable }, optimizers: optimizer, steps: 4 });
    for await (const { step } of loop) {
      const examples = step === 0 ? 1 : 0;
      await loop.step(() => tf.mul(variable, 1) as tf.Scalar, optimizer, { examples });
    }
    return variable.dataSync()[0];
  });
  expect(value).toBe(0.5);
});

describe('a worker that is replaced alone', () => {
  /**
   * @param dies the step in which the process dies, or -1 if it does not die.
   * @param taken receives the steps that this process takes.
   */
  const program =
    (dies: number, taken: number[]) =>
    async ({ open }: World) => {
      const [body, one, other] = [1, 2, 3].map((value) => tf.variable(tf.tensor1d([value, value]))) as [
        tf.Variable,
        tf.Variable,
        tf.Variable,
      ];
      const [first, second] = [tf.train.momentum(0.01, 0.9), tf.train.adam(0.01)];
      const loop = await open({ variables: { body, one, other }, optimizers: { first, second }, steps: 25 });
      for await (const { step } of loop) {
        if (step === dies) {
          throw new Killed();
        }
        taken.push(step);
        const [head, optimizer] = step % 2 === 0 ? [one, first] : [other, second];
        await loop.step(() => tf.sum(tf.square(tf.mul(body, head))) as tf.Scalar, optimizer);
      }
      return [body, one, other].flatMap((each) => [...each.dataSync()]);
    };

  test.each([
    [0, null],
    [1, null],
    [0, 0],
    [1, 0],
  ])('a replaced worker resumes at its last reported position: rank %i, staleness %j', async (dying, staleness) => {
    const process = await start({ workers: 2, staleness, dir: await folder() });
    const [before, after, others]: [number[], number[], number[]] = [[], [], []];
    const other = program(-1, others)(process(1 - dying));
    const lost = process(dying);
    await expect(program(7, before)(lost)).rejects.toThrow(Killed);
    const [value, otherValue] = await Promise.all([program(-1, after)(process(dying)), other]);
    expect(before).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(after[0]).toBeGreaterThan(0);
    expect(after[0]).toBeLessThanOrEqual(7);
    expect(after.at(-1)).toBe(24);
    expect(value).toEqual(otherValue);
  });

  test('a worker that is replaced after the end of the loop takes no further step', async () => {
    const process = await start({ workers: 2, dir: await folder() });
    const taken: number[] = [];
    const ends = await Promise.all([0, 1].map((rank) => program(-1, [])(process(rank))));
    expect(await program(-1, taken)(process(1))).toEqual(ends[1]);
    expect(await program(-1, taken)(process(0))).toEqual(ends[0]);
    expect(taken).toEqual([]);
  });
});

test('a loop settles the custom steps before it, and two loops can run in sequence', async () => {
  const process = await start({ workers: 2, dir: await folder() });
  const ends = await Promise.all(
    [0, 1].map(async (rank) => {
      const { worker, open } = process(rank);
      const variable = tf.variable(tf.tensor1d([1 + rank, 2]));
      const optimizer = tf.train.adam(0.1);
      const loss = () => tf.sum(tf.square(variable)) as tf.Scalar;
      for (let step = 0; step < 2 + rank; step++) {
        await worker.step(tf, loss, optimizer, () => [variable]);
      }
      const steps: number[] = [];
      for (const _ of [1, 2]) {
        const loop = await open({ variables: { variable }, optimizers: optimizer, steps: 4 });
        for await (const { step } of loop) {
          steps.push(step);
          await loop.step(loss, optimizer);
        }
      }
      return { values: [...variable.dataSync()], iterations: optimizer.iterations, steps };
    }),
  );
  expect(ends[1]).toEqual(ends[0]);
  expect(ends[0]).toMatchObject({ iterations: 2 + 3 + 2 * 8, steps: [0, 1, 2, 3, 0, 1, 2, 3] });
});
