import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { Phases } from '../../checkpoint/phases.ts';
import type { TrainingData } from '../../data/data.ts';
import { type FitEnvironment, fit as fitModel } from '../../fit/fit.ts';
import { optimizerTensors } from '../../model/optimizer-state.ts';
import { openWorker, startServers } from '../testing/server-world.ts';
import type { ParameterServerWorker } from './parameter-server-worker.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

/** Starts servers. Returns a function that creates a new worker on each call, as a new process would. */
async function start(workers: number, servers: number, staleness: number | null = null): Promise<(rank?: number) => ParameterServerWorker> {
  const { optionsOf } = await startServers({ workers, servers, staleness });
  return (rank = 0) => openWorker(optionsOf(rank));
}

interface Trainer {
  step(loss: () => tf.Scalar, optimizer: tf.Optimizer, variables: readonly tf.Variable[]): Promise<unknown>;
}

const plain: Trainer = {
  async step(loss, optimizer, variables) {
    optimizer.minimize(loss, false, [...variables])?.dispose();
  },
};

const by = (worker: ParameterServerWorker): Trainer => ({
  step: (loss, optimizer, variables) => worker.step(tf, loss, optimizer, () => variables),
});

const variable = (...values: number[]) => tf.tidy(() => tf.variable(tf.tensor1d(values)));
const to =
  (target: number, ...variables: tf.Variable[]) =>
  () =>
    tf.addN(variables.map((each) => tf.sum(tf.square(tf.sub(each, target))))) as tf.Scalar;
const valuesOf = (...variables: tf.Variable[]) => variables.map((each) => [...each.dataSync()]);
const slotsOf = (optimizer: tf.Optimizer, ...variables: tf.Variable[]) =>
  optimizerTensors(tf, optimizer, variables).map(({ variable: slot }) => [...slot.dataSync()]);

function expectClose(one: readonly number[][], other: readonly number[][]): void {
  expect(one.map(({ length }) => length)).toEqual(other.map(({ length }) => length));
  for (const [index, value] of one.flat().entries()) {
    expect(value).toBeCloseTo(other.flat()[index] as number, 6);
  }
}

async function compare(program: (trainer: Trainer, settle: () => Promise<void>) => Promise<number[][]>): Promise<void> {
  const worker = (await start(1, 3))();
  const served = await program(by(worker), () => worker.settle());
  expectClose(served, await program(plain, async () => {}));
}

const OPTIMIZERS: Record<string, () => tf.Optimizer> = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.05, 0.9),
  adagrad: () => tf.train.adagrad(0.1),
  adadelta: () => tf.train.adadelta(0.5),
  adam: () => tf.train.adam(0.01),
  adamax: () => tf.train.adamax(0.01),
  rmsprop: () => tf.train.rmsprop(0.01, 0.9, 0.5),
};

describe('a loop of one worker with servers gives the same results as plain TensorFlow.js', () => {
  test.each(Object.keys(OPTIMIZERS))('%s, with two alternating heads and a variable that is temporarily frozen', async (name) => {
    await compare(async (trainer, settle) => {
      const optimizer = (OPTIMIZERS[name] as () => tf.Optimizer)();
      const [body, one, other] = [variable(1, 2, 3), variable(4, 5), variable(6)];
      for (let step = 0; step < 12; step++) {
        body.trainable = step < 4 || step >= 8;
        await trainer.step(to(step % 3, body, step % 2 === 0 ? one : other), optimizer, [body, one, other]);
      }
      await settle();
      return [...valuesOf(body, one, other), ...slotsOf(optimizer, body, one, other), [optimizer.iterations]];
    });
  });

  test('the list of variables may change from step to step', async () => {
    await compare(async (trainer) => {
      const optimizer = tf.train.sgd(0.1);
      const [one, other] = [variable(1, 2), variable(3, 4, 5)];
      for (let step = 0; step < 6; step++) {
        await trainer.step(to(9, one, other), optimizer, step % 2 === 0 ? [one] : [other]);
      }
      const late = variable(7);
      await trainer.step(to(9, one, late), optimizer, [late, one]);
      await trainer.step(to(8, one, other, late), optimizer, [one, other, late]);
      return valuesOf(one, other, late);
    });
  });

  test('two optimizers may train separate variables and the same variables', async () => {
    await compare(async (trainer, settle) => {
      const [adam, momentum] = [tf.train.adam(0.05), tf.train.momentum(0.05, 0.5)];
      const [one, other] = [variable(1, 2), variable(3)];
      for (let step = 0; step < 5; step++) {
        await trainer.step(to(4, one), adam, [one]);
        await trainer.step(to(-4, other), momentum, [other]);
      }
      await trainer.step(to(1, one), momentum, [other, one]);
      await settle();
      return [...valuesOf(one, other), ...slotsOf(adam, one), ...slotsOf(momentum, other, one)];
    });
  });

  test('the program may assign values, such as clipped weights', async () => {
    await compare(async (trainer, settle) => {
      const optimizer = tf.train.momentum(0.2, 0.9);
      const [one, other] = [variable(1, 2), variable(3)];
      for (let step = 0; step < 6; step++) {
        await trainer.step(to(4, one, other), optimizer, [one, other]);
        tf.tidy(() => one.assign(tf.clipByValue(one, -2, 2) as tf.Tensor1D));
      }
      other.assign(tf.tensor1d([11]));
      await settle();
      return valuesOf(one, other);
    });
  });

  test('the program may dispose variables and create new ones for the same optimizer', async () => {
    await compare(async (trainer) => {
      const optimizer = tf.train.sgd(0.1);
      const stays = variable(5, 6);
      const ends: number[][] = [];
      for (let trial = 0; trial < 3; trial++) {
        const passing = variable(trial, 1);
        for (let step = 0; step < 3; step++) {
          await trainer.step(to(2, stays, passing), optimizer, [stays, passing]);
        }
        ends.push(...valuesOf(passing));
        passing.dispose();
      }
      return [...ends, ...valuesOf(stays)];
    });
  });

  test('the results agree after each step, even if the worker calls settle between steps', async () => {
    await compare(async (trainer, settle) => {
      const optimizer = tf.train.adam(0.1);
      const one = variable(1, 2);
      for (let step = 0; step < 4; step++) {
        await trainer.step(to(4, one), optimizer, [one]);
        await settle();
      }
      return [...valuesOf(one), ...slotsOf(optimizer, one), [optimizer.iterations]];
    });
  });

  test('the learning rate may change with each step', async () => {
    await compare(async (trainer) => {
      const [sgd, adam] = [tf.train.sgd(0.1), tf.train.adam(0.1)];
      const one = variable(1, 2);
      for (const rate of [0.1, 0, 0.01]) {
        sgd.setLearningRate(rate);
        (adam as unknown as { learningRate: number }).learningRate = rate;
        await trainer.step(to(4, one), sgd, [one]);
        await trainer.step(to(4, one), adam, [one]);
      }
      return valuesOf(one);
    });
  });
});

test('one optimizer may alternate between step and fit', async () => {
  const values = Float32Array.from({ length: 40 }, (_, index) => Math.sin(index));
  const data: TrainingData = { x: { values, shape: [20, 2] }, y: { values: values.subarray(0, 20), shape: [20, 1] } };
  const [x, y] = [tf.tensor2d(values, [20, 2]), tf.tensor2d(values.subarray(0, 20), [20, 1])];
  const make = () => {
    const made = tf.sequential({
      layers: [tf.layers.dense({ units: 1, inputShape: [2], kernelInitializer: tf.initializers.glorotUniform({ seed: 3 }) })],
    });
    made.compile({ optimizer: tf.train.adam(0.05), loss: 'meanSquaredError' });
    return made;
  };
  const [served, alone] = [make(), make()];
  const worker = (await start(1, 2))();
  const step = async (model: tf.LayersModel, trainer: Trainer) => {
    const variables = model.trainableWeights.map((weight) => weight.read() as tf.Variable);
    const loss = () => tf.losses.meanSquaredError(y, model.apply(x) as tf.Tensor) as tf.Scalar;
    for (const _ of [1, 2, 3]) {
      await trainer.step(loss, model.optimizer, variables);
    }
  };
  const phases = new Phases('');
  const environment: Omit<FitEnvironment, 'phase'> = {
    ...{ tf, strategy: worker, generation: 1, jobId: '', checkpoints: null, summaries: null },
    report: () => {},
  };
  for (const _ of [1, 2]) {
    await step(served, by(worker));
    await step(alone, plain);
    await fitModel({ ...environment, phase: phases.begin('fit') }, served, data, { batchSize: 5, epochs: 2, shuffle: false });
    await alone.fit(x, y, { batchSize: 5, epochs: 2, shuffle: false, verbose: 0 });
    const weights = (model: tf.LayersModel) => model.getWeights().map((weight) => [...weight.dataSync()]);
    expectClose(weights(served), weights(alone));
    const slots = (model: tf.LayersModel) =>
      slotsOf(model.optimizer, ...model.trainableWeights.map((weight) => weight.read() as tf.Variable));
    expectClose(slots(served), slots(alone));
    expect(served.optimizer.iterations).toBe(alone.optimizer.iterations);
  }
});

test('after the end of a run of custom steps, the program holds the weights and slots of the servers', async () => {
  const worker = (await start(1, 3))();
  const [served, alone] = [tf.train.adam(0.1), tf.train.adam(0.1)];
  const [one, other] = [variable(1, 2), variable(1, 2)];
  for (let step = 0; step < 3; step++) {
    await worker.step(tf, to(4, one), served, () => [one]);
    await plain.step(to(4, other), alone, [other]);
    await worker.settle();
    expectClose([...valuesOf(one), ...slotsOf(served, one)], [...valuesOf(other), ...slotsOf(alone, other)]);
  }
});

test('a NaN learning rate is rejected before a step uses it', async () => {
  const worker = (await start(1, 1))();
  const [one, optimizer] = [variable(1, 2), tf.train.sgd(0.1)];
  optimizer.setLearningRate(Number.NaN);
  await expect(worker.step(tf, to(4, one), optimizer, () => [one])).rejects.toMatchObject({ code: 'MODEL_INVALID' });
  optimizer.setLearningRate(0.1);
  await worker.step(tf, to(4, one), optimizer, () => [one]);
  optimizer.setLearningRate(Number.NaN);
  await expect(worker.step(tf, to(4, one), optimizer, () => [one])).rejects.toMatchObject({ code: 'USAGE' });
  expect(one.dataSync().every(Number.isFinite)).toBe(true);
});

describe('several workers', () => {
  test('workers agree on variables although their names differ', async () => {
    const make = await start(2, 1);
    const [chief, other] = [make(0), make(1)];
    const build = () => tf.sequential({ layers: [tf.layers.dense({ name: 'head', units: 1, inputShape: [1] })] });
    const models = [build(), build()];
    const lists = models.map((model) => model.trainableWeights.map((weight) => weight.read() as tf.Variable));
    expect(lists[1]?.[0]?.name).not.toBe(lists[0]?.[0]?.name);
    const [first = [], second = []] = lists;
    const [sgd, same] = [tf.train.sgd(0.1), tf.train.sgd(0.1)];
    await Promise.all([chief.step(tf, to(2, ...first), sgd, () => first), other.step(tf, to(2, ...second), same, () => second)]);
    await Promise.all([chief.settle(), other.settle()]);
    expect(valuesOf(...second)).toEqual(valuesOf(...first));
  });

  test('workers with staleness 0 start with the values of rank 0, even for variables that are created later', async () => {
    const make = await start(2, 2, 0);
    const seen: number[][][] = [[], []];
    await Promise.all(
      [0, 1].map(async (rank) => {
        const worker = make(rank);
        const optimizer = tf.train.sgd(0.01);
        const variables = [variable(rank, 2), variable(3)];
        for (let step = 0; step < 8; step++) {
          if (step === 4) {
            variables.push(variable(rank + 10, 20, 30));
          }
          const loss = () => {
            seen[rank]?.push(valuesOf(...variables).flat());
            return to(5, ...variables)();
          };
          await worker.step(tf, loss, optimizer, () => variables);
        }
        await worker.settle();
        seen[rank]?.push(valuesOf(...variables).flat());
      }),
    );
    expect(seen[1]).toEqual(seen[0]);
    expect(seen[0]?.[4]?.slice(3)).toEqual([10, 20, 30]);
  });

  test('workers end with equal weights and slots, even if they take different numbers of steps', async () => {
    const make = await start(3, 2);
    const ends = await Promise.all(
      [0, 1, 2].map(async (rank) => {
        const worker = make(rank);
        const optimizer = tf.train.adam(0.01);
        const variables = [variable(1, 2), variable(3)];
        for (let step = 0; step < 4 + rank * 5; step++) {
          await worker.step(tf, to(5, ...variables), optimizer, () => variables);
        }
        await worker.settle();
        return [...valuesOf(...variables), ...slotsOf(optimizer, ...variables), [optimizer.iterations]];
      }),
    );
    expect(ends[1]).toEqual(ends[0]);
    expect(ends[2]).toEqual(ends[0]);
    expect(ends[0]?.at(-1)).toEqual([4 + 9 + 14]);
  });

  test('workers receive an error that names the variable whose shape differs from rank 0', async () => {
    const make = await start(2, 2);
    const [chief, other] = [make(0), make(1)];
    const named = (name: string, ...values: number[]) => {
      const made = tf.variable(tf.tensor1d(values), true, name);
      onTestFinished(() => made.dispose());
      return made;
    };
    const [sgd, same] = [tf.train.sgd(0.1), tf.train.sgd(0.1)];
    const [kernel, wrong] = [named('kernel-1', 1, 2, 3), named('kernel-2', 1, 2, 3, 4)];
    void chief.step(tf, to(1, kernel), sgd, () => [kernel]).catch(() => {});
    await expect(other.step(tf, to(1, wrong), same, () => [wrong])).rejects.toMatchObject({
      code: 'RING_MISMATCH',
      message: 'variable 0 is kernel-1 [3] on rank 0, but kernel-2 [4] on rank 1',
    });
  });

  test('workers receive an error that names a variable that rank 0 does not train', async () => {
    const make = await start(2, 1);
    const [chief, other] = [make(0), make(1)];
    const [one, same] = [variable(1), variable(1)];
    const extra = tf.variable(tf.tensor1d([5]), true, 'extra');
    onTestFinished(() => extra.dispose());
    const [sgd, its] = [tf.train.sgd(0.1), tf.train.sgd(0.1)];
    await Promise.all([chief.step(tf, to(2, one), sgd, () => [one]), other.step(tf, to(2, same), its, () => [same])]);
    const refused = expect(other.step(tf, to(2, same, extra), its, () => [same, extra])).rejects.toThrow(
      'rank 1 trains the variable extra in step 1, but rank 0 took that step without it',
    );
    await chief.step(tf, to(2, one), sgd, () => [one]);
    await refused;
  });

  test('workers can be replaced, and the replacement continues with the values on the servers', async () => {
    const make = await start(1, 2);
    const [first, optimizer] = [variable(1, 2), tf.train.momentum(0.05, 0.9)];
    const dying = make();
    for (let step = 0; step < 3; step++) {
      await dying.step(tf, to(5, first), optimizer, () => [first]);
    }
    const replacement = make();
    const [second, fresh] = [variable(77, 88), tf.train.momentum(0.05, 0.9)];
    const seen: number[][] = [];
    const loss = () => {
      seen.push(...valuesOf(second));
      return to(5, second)();
    };
    await replacement.step(tf, loss, fresh, () => [second]);
    expect(seen[0]).toEqual(valuesOf(first)[0]);
    // The slots on the servers also affect the result.
    const [alone, its] = [variable(1, 2), tf.train.momentum(0.05, 0.9)];
    for (let step = 0; step < 4; step++) {
      await plain.step(to(5, alone), its, [alone]);
    }
    expectClose(valuesOf(second), valuesOf(alone));
  });
});

test('a worker without examples takes part in a step, computes no loss and changes no weights', async () => {
  const worker = (await start(1, 1))();
  const [weight, optimizer] = [variable(1, 2), tf.train.adam(0.1)];
  await worker.step(tf, to(3, weight), optimizer, () => [weight]);
  const before = valuesOf(weight);
  const loss = () => {
    throw new Error('the loss must not be computed without examples');
  };
  await worker.step(tf, loss, optimizer, () => [weight], 0);
  await worker.settle();
  expect(valuesOf(weight)).toEqual(before);
});

test('servers free the variables and optimizers that a program disposes', async () => {
  const worker = (await start(1, 2))();
  const stays = variable(1, 2);
  const forever = tf.train.sgd(0.1);
  const trial = async () => {
    const [passing, optimizer] = [variable(1, 2, 3), tf.train.adam(0.1)];
    for (let step = 0; step < 3; step++) {
      await worker.step(tf, to(3, stays, passing), optimizer, () => [stays, passing]);
    }
    passing.dispose();
    optimizer.dispose();
    // This step reports the disposal to the servers.
    await worker.step(tf, to(3, stays), forever, () => [stays]);
  };
  await trial();
  const before = tf.memory().numTensors;
  for (let round = 0; round < 100; round++) {
    await trial();
  }
  expect(tf.memory().numTensors).toBe(before);
});
