import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, test } from 'vitest';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import type { Report } from '../../contract/process/task-context.ts';
import { folder } from '../../contract/testing/folder.ts';
import type { Json } from '../../platform/json-value.ts';
import { createRandom, withRandom } from '../../platform/random.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { Phases } from '../checkpoint/phases.ts';
import { StopOrders } from '../checkpoint/stop-order.ts';
import { fromArray } from '../data/sources/sources.ts';
import { weightsOf as modelWeightsOf } from '../model/compiled-model.ts';
import { restoreWeights } from '../model/training-state.ts';
import type { Ring } from '../ring/ring.ts';
import { CustomSteps } from '../strategy/all-reduce/custom-steps.ts';
import { RingLoop } from '../strategy/all-reduce/ring-loop.ts';
import { weightsOf } from '../testing/fit-world.ts';
import { ringOf } from '../testing/resources.ts';
import { type LoopEnvironment, TrainingLoop } from './loop.ts';
import type { LoopOptions } from './loop-options.ts';
import { UnfinishedTraining } from './unfinished-training.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

interface World {
  readonly ring: Ring;
  readonly dir: string | null;
  readonly generation: number;
  readonly reports: Report[];
  open<T = null, State extends Json = null>(options: LoopOptions<T, State>): Promise<TrainingLoop<T, State>>;
}

const storage = new FileStorage();

/** When a loop writes checkpoints. Default: every 3 steps. */
interface Interval {
  readonly everyMs: number;
  readonly now: (rank: number) => () => number;
}

function worldOf(ring: Ring, dir: string | null, generation = 1, interval: Interval | null = null): World {
  const reports: Report[] = [];
  const phases = new Phases('application_1_0001');
  const store = dir === null ? null : new CheckpointStore(storage, fileUri(dir));
  const steps = new CustomSteps(tf, ring, 'float32');
  const open = async <T, State extends Json>(options: LoopOptions<T, State>) => {
    const environment: LoopEnvironment = {
      ...{ tf, storage, generation, jobId: 'application_1_0001', rank: ring.rank, worldSize: ring.worldSize },
      stepsTogether: true,
      openStrategy: (context) => new RingLoop(ring, steps, context),
      phase: phases.begin('loop', options.name),
      checkpoints: store === null ? null : { store, everySteps: interval === null ? 3 : null, everyMs: interval?.everyMs ?? null, keep: 2 },
      ...(interval !== null && { now: interval.now(ring.rank) }),
      stopOrders: store === null ? null : new StopOrders(storage, store.dir),
      onReport: (metrics, step) => reports.push({ type: 'progress', step, metrics }),
      report: (report) => reports.push(report),
      onNotice: (message) => reports.push({ type: 'notice', message }),
      unfinished: new UnfinishedTraining(),
    };
    return await TrainingLoop.open(environment, options);
  };
  return { ring, dir, generation, reports, open };
}

async function onRanks<R>(
  ranks: number,
  dir: string | null,
  program: (world: World) => Promise<R>,
  generation = 1,
  interval: Interval | null = null,
): Promise<R[]> {
  const rings = await ringOf(ranks);
  const outcomes = await Promise.allSettled(rings.map((ring) => program(worldOf(ring, dir, generation, interval))));
  for (const ring of rings) {
    ring.close();
  }
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') {
      throw outcome.reason;
    }
    return outcome.value;
  });
}

const DATA = Array.from({ length: 40 }, (_, index) => ({ xs: [0, 1, 2].map((place) => Math.sin(index * 3 + place)) }));
const BATCH = 4;

const dense = (units: number, seed: number, more: object = {}) =>
  tf.layers.dense({ units, activation: 'tanh', kernelInitializer: tf.initializers.glorotUniform({ seed }), ...more });

function makeGan() {
  const generator = tf.sequential({ layers: [dense(4, 1, { inputShape: [2] }), dense(3, 2)] });
  const discriminator = tf.sequential({ layers: [dense(5, 3, { inputShape: [3] }), tf.layers.dropout({ rate: 0.3 }), dense(1, 4)] });
  const forDiscriminator = tf.train.momentum(0.05, 0.9);
  const forGenerator = tf.train.adam(0.02);
  const logitOf = (x: tf.Tensor) => discriminator.apply(x, { training: true }) as tf.Tensor;
  const invent = (count: number) => generator.apply(tf.randomNormal([count, 2])) as tf.Tensor;
  const discriminatorLoss = (xs: tf.Tensor) =>
    tf.add(tf.mean(tf.softplus(tf.neg(logitOf(xs)))), tf.mean(tf.softplus(logitOf(invent(xs.shape[0] as number))))) as tf.Scalar;
  const generatorLoss = (xs: tf.Tensor) => tf.mean(tf.softplus(tf.neg(logitOf(invent(xs.shape[0] as number))))) as tf.Scalar;
  return { generator, discriminator, forDiscriminator, forGenerator, discriminatorLoss, generatorLoss };
}

interface GanEnd {
  readonly weights: readonly number[];
  readonly state: { readonly losses: readonly number[] };
  readonly steps: number;
  readonly taken: readonly number[];
}

class Killed extends Error {}

/** Ends the program as a kill would, after this step's checkpoint has been written. */
async function killAfterCheckpoint(step: number, { ring, reports }: World): Promise<never> {
  if (ring.rank === 0) {
    await expect.poll(() => reports.some((report) => report.type === 'checkpoint' && report.step === step)).toBe(true);
  }
  await ring.barrier();
  throw new Killed();
}

const gan =
  (killedIn = -1) =>
  async (world: World): Promise<GanEnd> => {
    const { generator, discriminator, forDiscriminator, forGenerator, discriminatorLoss, generatorLoss } = makeGan();
    const loop = await world.open({
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
      const loss = await loop.step(({ xs }) => discriminatorLoss(xs), forDiscriminator, { variables: discriminator });
      if (step === killedIn) {
        await killAfterCheckpoint(step - (step % 3), world);
      }
      await loop.step(({ xs }) => generatorLoss(xs), forGenerator, { variables: generator });
      loop.state.losses.push(loss);
    }
    return { weights: [...weightsOf(generator), ...weightsOf(discriminator)], state: loop.state, steps: loop.steps, taken };
  };

describe.each([1, 2, 3])('a GAN on %i ranks', (ranks) => {
  test('a killed GAN resumes with identical weights, optimizers, data, random numbers and state', async () => {
    const [undisturbed] = await onRanks(ranks, await folder(), gan());
    const dir = await folder();
    await expect(onRanks(ranks, dir, gan(7))).rejects.toThrow(Killed);
    const resumed = await onRanks(ranks, dir, gan(), 2);
    expect(resumed[0]?.taken[0]).toBe(6);
    for (const { weights, state, steps } of resumed) {
      expect(weights).toEqual(undisturbed?.weights);
      expect(state).toEqual(undisturbed?.state);
      expect(steps).toBe(undisturbed?.steps);
    }
    expect(resumed[0]?.steps).toBe(2 * Math.ceil(DATA.length / BATCH / ranks));
  });
});

test('a loop resumes with another number of ranks, and uses each element once per epoch', async () => {
  const program =
    (killedIn = -1) =>
    async (world: World) => {
      const variable = tf.variable(tf.scalar(0));
      const optimizer = tf.train.sgd(1);
      const data = fromArray(DATA.map((_, index) => ({ number: index }))).batch(BATCH);
      const loop = await world.open({ variables: { variable }, optimizers: optimizer, data, state: null });
      for await (const { step } of loop) {
        if (step === killedIn) {
          await killAfterCheckpoint(3, world);
        }
        // A rank's gradient adds the sum of the numbers in its batch. `examples: 1` gives the ranks equal weights, so a step adds the mean
        // of their sums.
        await loop.step(({ number }) => tf.mul(tf.sum(number), tf.neg(variable)) as tf.Scalar, optimizer, { examples: 1 });
      }
      return { sum: variable.dataSync()[0], steps: loop.steps };
    };
  const dir = await folder();
  await expect(onRanks(2, dir, program(4))).rejects.toThrow(Killed);
  const [end] = await onRanks(1, dir, program(), 2);
  // In the first three steps, two ranks add the mean of two batches; then a single rank adds the remaining batches one by one.
  const sums = DATA.map((_, index) => index).reduce((sum, number) => sum + number, 0);
  expect(end?.steps).toBe(3 + 4);
  expect(end?.sum).toBeGreaterThan(sums / 2);
});

test('a loop computes the same as plain TensorFlow.js on the combined batches of all ranks', async () => {
  const batches: number[][][] = [];
  const program = async ({ open, ring }: World) => {
    const model = tf.sequential({ layers: [dense(4, 1, { inputShape: [3] }), dense(1, 2)] });
    const [first, second] = [tf.train.adam(0.02), tf.train.momentum(0.01, 0.9)];
    const loop = await open({ models: model, optimizers: { first, second }, data: fromArray(DATA.slice(0, 37)).batch(BATCH), epochs: 2 });
    for await (const { step, batch } of loop) {
      batches[step] ??= [];
      batches[step][ring.rank] = batch === null ? [] : [...batch.xs.dataSync()];
      const loss = ({ xs }: { readonly xs: tf.Tensor }) => tf.mean(tf.square(tf.sub(model.apply(xs) as tf.Tensor, 0.5))) as tf.Scalar;
      await loop.step(loss, step % 2 === 0 ? first : second);
    }
    return weightsOf(model);
  };
  const ends = await onRanks(3, null, program);
  const model = tf.sequential({ layers: [dense(4, 1, { inputShape: [3] }), dense(1, 2)] });
  const [first, second] = [tf.train.adam(0.02), tf.train.momentum(0.01, 0.9)];
  for (const [step, ranks] of batches.entries()) {
    const numbers = ranks.flat();
    const xs = tf.tensor2d(numbers, [numbers.length / 3, 3]);
    const loss = () => tf.mean(tf.square(tf.sub(model.apply(xs) as tf.Tensor, 0.5))) as tf.Scalar;
    const variables = model.trainableWeights.map((weight) => weight.read() as tf.Variable);
    (step % 2 === 0 ? first : second).minimize(loss, false, variables);
  }
  expect(batches.flat(2)).toHaveLength(2 * 37 * 3);
  for (const weights of ends) {
    expect(weights).toEqual(ends[0]);
    for (const [index, value] of weightsOf(model).entries()) {
      expect(weights[index]).toBeCloseTo(value, 5);
    }
  }
});

test('random numbers drawn within a loss depend only on seed, step, rank and call', async () => {
  const drawn: number[] = [];
  const [weights] = await onRanks(1, null, async ({ open }) => {
    const variable = tf.variable(tf.scalar(0));
    const optimizer = tf.train.sgd(1);
    const loop = await open({ variables: { variable }, optimizers: optimizer, steps: 3, seed: 9 });
    for await (const { random } of loop) {
      drawn.push(random());
      await loop.step(() => tf.mul(variable, Math.random()) as tf.Scalar, optimizer);
      await loop.step(() => tf.mul(variable, Math.random()) as tf.Scalar, optimizer);
    }
    return variable.dataSync()[0];
  });
  const expected = [0, 1, 2].flatMap((step) => [0, 1].map((call) => withRandom(createRandom(9, step, 0, call), () => Math.random())));
  expect(weights).toBeCloseTo(-expected.reduce((sum, number) => sum + number), 5);
  expect(drawn).toEqual([0, 1, 2].map((step) => createRandom(9, step, 0)()));
});

describe('stop()', () => {
  const program =
    (stops: boolean) =>
    async ({ open, ring, reports }: World) => {
      const variable = tf.variable(tf.scalar(1));
      const optimizer = tf.train.sgd(0.1);
      const loop = await open({ variables: { variable }, optimizers: optimizer, steps: 50, state: { best: 0 } });
      for await (const { step } of loop) {
        await loop.step(() => tf.square(variable) as tf.Scalar, optimizer);
        loop.state.best = step;
        if (stops && step === 4 && ring.rank === 1) {
          loop.stop('the loss is small enough');
        }
      }
      return { steps: loop.steps, endedEarly: loop.endedEarly, best: loop.state.best, reports };
    };

  test('ends the loop on all ranks after the same step when one rank calls it, and a restart does not continue the loop', async () => {
    const dir = await folder();
    const ends = await onRanks(2, dir, program(true));
    expect(ends.map(({ steps }) => steps)).toEqual([5, 5]);
    expect(ends.map(({ endedEarly }) => endedEarly)).toEqual(['the loss is small enough', 'the loss is small enough']);
    expect(ends[0]?.reports).toContainEqual({ type: 'early-end', step: 5, reason: ends[0]?.endedEarly });
    const again = await onRanks(2, dir, program(false), 2);
    expect(again.map(({ steps, best }) => [steps, best])).toEqual([
      [5, 4],
      [5, 4],
    ]);
    expect(again[0]?.endedEarly).toBe(ends[0]?.endedEarly);
  });

  test("an evaluator's stop order and a call without a reason give all ranks the same reason", async () => {
    const dir = await folder();
    const order = { jobId: 'application_1_0001', phase: 'loop-1', step: 1, reason: 'it learns no more', at: null };
    await new StopOrders(storage, fileUri(dir)).give(order);
    const ordered = await onRanks(2, dir, program(false));
    expect(ordered.map(({ endedEarly }) => endedEarly)).toEqual([order.reason, order.reason]);
    const stopped = await onRanks(2, null, async ({ open, ring }) => {
      const variable = tf.variable(tf.scalar(1));
      const loop = await open({ variables: { variable }, steps: 5 });
      for await (const { step } of loop) {
        if (step === 1 && ring.rank === 1) {
          loop.stop();
        }
      }
      return loop.endedEarly;
    });
    expect(stopped).toEqual(['the program called stop() (step 2)', 'the program called stop() (step 2)']);
  });
});

test('two loops of a program are phases: a restart restores the completed one and resumes the other', async () => {
  const program =
    (killedIn = -1) =>
    async (world: World) => {
      const variable = tf.variable(tf.scalar(1));
      const optimizer = tf.train.momentum(0.1, 0.5);
      const taken: number[] = [];
      for (const name of ['warm-up', 'main']) {
        const loop = await world.open({ name, variables: { variable }, optimizers: optimizer, steps: 7 });
        for await (const { step } of loop) {
          if (name === 'main' && step === killedIn) {
            await killAfterCheckpoint(7 + 3, world);
          }
          taken.push(step);
          await loop.step(() => tf.square(variable) as tf.Scalar, optimizer);
        }
      }
      return { value: variable.dataSync()[0], taken };
    };
  const [undisturbed] = await onRanks(1, await folder(), program());
  const dir = await folder();
  await expect(onRanks(1, dir, program(5))).rejects.toThrow(Killed);
  const [resumed] = await onRanks(1, dir, program(), 2);
  expect(resumed).toEqual({ value: undisturbed?.value, taken: [3, 4, 5, 6] });
});

describe('a loop rejects', () => {
  const variable = () => tf.variable(tf.scalar(1));
  const attempt = async (
    options: object,
    body: (loop: TrainingLoop<null, Json>) => Promise<unknown> = async () => {},
    dir: string | null = null,
  ) =>
    await onRanks(1, dir, async ({ open }) => {
      const loop = await open<null, Json>(options as LoopOptions<null, Json>);
      for await (const _ of loop) {
        await body(loop);
      }
    });

  test.each([
    [{ models: {}, step: 3 }, /^loop has no option step; did you mean steps/],
    [{ steps: 3 }, /^the loop has nothing to train/],
    [{ steps: -1 }, /^steps of loop is -1/],
    [{ variables: { a: 1 }, epochs: 2 }, /^epochs is the number of passes/],
    [{ models: { 'a b': {} } }, /"a b" is not a valid model name/],
    [{ optimizers: { a: {} } }, /^a is not an optimizer/],
  ])('%j', async (options, message) => {
    await expect(attempt(options)).rejects.toMatchObject({ code: 'USAGE', message: expect.stringMatching(message) });
  });

  test('an optimizer that was not passed to it', async () => {
    const trained = variable();
    const attempted = attempt({ variables: { trained }, steps: 2 }, (loop) =>
      loop.step(() => tf.square(trained) as tf.Scalar, tf.train.sgd(1)),
    );
    await expect(attempted).rejects.toThrow('not created with this optimizer');
  });

  test('a step outside the loop', async () => {
    await onRanks(1, null, async ({ open }) => {
      const trained = variable();
      const optimizer = tf.train.sgd(1);
      const loop = await open({ variables: { trained }, optimizers: optimizer, steps: 2 });
      await expect(loop.step(() => tf.square(trained) as tf.Scalar, optimizer)).rejects.toThrow('outside the loop');
    });
  });

  test('a checkpoint of other variables', async () => {
    const dir = await folder();
    await attempt({ variables: { one: variable() }, steps: 1 }, undefined, dir);
    await expect(attempt({ variables: { other: variable() }, steps: 4 }, undefined, dir)).rejects.toMatchObject({
      code: 'CHECKPOINT_MISMATCH',
      message: expect.stringMatching(/^phase loop-1: .* it contains variable\/one, which is not part of this loop$/),
    });
  });

  test('the same variable under two names', async () => {
    const trained = variable();
    await expect(attempt({ variables: { one: trained, two: trained } })).rejects.toThrow('contains the variable variable/two twice');
  });
});

test('a NaN loss ends the loop on all ranks, and no diverged checkpoint is written', async () => {
  const dir = await folder();
  const attempt = onRanks(2, dir, async ({ open }) => {
    const trained = tf.variable(tf.scalar(1));
    const optimizer = tf.train.sgd(1e30);
    const loop = await open({ variables: { trained }, optimizers: optimizer, steps: 12 });
    for await (const _ of loop) {
      await loop.step(() => tf.square(tf.square(trained)) as tf.Scalar, optimizer);
    }
  });
  await expect(attempt).rejects.toMatchObject({ code: 'TRAINING_DIVERGED', message: expect.stringContaining('phase loop-1: the loss is') });
  expect(await new CheckpointStore(storage, fileUri(dir)).newest(() => {})).toBeNull();
});

test('a checkpoint contains each model of a loop under its name', async () => {
  const dir = await folder();
  const [end] = await onRanks(1, dir, gan());
  const stored = await new CheckpointStore(storage, fileUri(dir)).newest(() => {});
  const { generator, discriminator } = makeGan();
  restoreWeights(tf, modelWeightsOf(generator), stored?.tensors ?? [], 'there', 'generator');
  restoreWeights(tf, modelWeightsOf(discriminator), stored?.tensors ?? [], 'there', 'discriminator');
  expect([...weightsOf(generator), ...weightsOf(discriminator)]).toEqual(end?.weights);
  expect(() => restoreWeights(tf, modelWeightsOf(generator), stored?.tensors ?? [], 'there')).toThrow(
    'it contains several models: name one of generator, discriminator',
  );
});

test('an iteration leaks no tensor', async () => {
  await onRanks(1, null, async ({ open }) => {
    const trained = tf.variable(tf.scalar(1));
    const optimizer = tf.train.adam(0.1);
    const data = fromArray(DATA).batch(BATCH);
    const loop = await open({ variables: { trained }, optimizers: optimizer, data, steps: 30 });
    const counts: number[] = [];
    for await (const _ of loop) {
      await loop.step(({ xs }) => tf.mul(trained, tf.sum(xs)) as tf.Scalar, optimizer);
      counts.push(tf.memory().numTensors);
    }
    expect(counts.at(-1)).toBe(counts[1]);
  });
});

test('with a time between checkpoints, all ranks write the checkpoint after the same iteration, which rank 0 determines', async () => {
  const dir = await folder();
  const minutes = [0, 0];
  // The clock of rank 1 is faster, and has no effect.
  const interval = { everyMs: 10 * 60_000, now: (rank: number) => () => (minutes[rank] ?? 0) * 60_000 };
  const program = async (world: World) => {
    const { rank } = world.ring;
    const loop = await world.open({ variables: { v: tf.variable(tf.scalar(1)) }, steps: 7 });
    const stored = () => world.reports.flatMap((report) => (report.type === 'checkpoint' ? [report.step] : []));
    for await (const { step } of loop) {
      // A newer checkpoint would replace one that is still waiting to be written.
      await expect.poll(stored, { timeout: 20_000 }).toEqual(rank === 0 ? [3, 6].filter((each) => each <= step) : []);
      minutes[rank] = (minutes[rank] ?? 0) + (rank === 0 ? 4 : 30);
    }
    return stored();
  };
  expect(await onRanks(2, dir, program, 1, interval)).toEqual([[3, 6, 7], []]);
});
