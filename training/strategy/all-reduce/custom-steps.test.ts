import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { broadcastVariables } from '../../model/broadcast-tensors.ts';
import { allTrainable, movingAveragesOf } from '../../model/trainables.ts';
import type { Ring } from '../../ring/ring.ts';
import { ringOf } from '../../testing/resources.ts';
import { type CustomStepOptions, checkCustomStepOptions } from '../custom-step-options.ts';
import { CustomSteps } from './custom-steps.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

afterEach(() => {
  tf.disposeVariables();
});

async function onRanks<T>(worldSize: number, program: (steps: CustomSteps, ring: Ring) => Promise<T>): Promise<T[]> {
  const rings = await ringOf(worldSize);
  return await Promise.all(
    rings.map(async (ring) => {
      const steps = new CustomSteps(tf, ring, 'float32');
      try {
        return await program(steps, ring);
      } finally {
        steps.dispose();
      }
    }),
  );
}

/** Takes a step without tony-ts, as a reference. Computes gradients for `trained`; slots are numbered by position in `all`. */
function plainStep(loss: () => tf.Scalar, optimizer: tf.Optimizer, trained: readonly tf.Variable[], all: readonly tf.Variable[]): void {
  const { value, grads } = tf.variableGrads(loss, [...trained]);
  const gradients = all.map(({ name }) => ({ name, tensor: grads[name] ?? null }));
  optimizer.applyGradients(gradients as unknown as tf.NamedTensorMap);
  tf.dispose([value, ...Object.values(grads).filter((gradient) => gradient !== null)]);
}

const OPTIMIZERS: Readonly<Record<string, () => tf.Optimizer>> = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.05, 0.9),
  nesterov: () => tf.train.momentum(0.05, 0.9, true),
  adagrad: () => tf.train.adagrad(0.1),
  adadelta: () => tf.train.adadelta(0.1),
  adam: () => tf.train.adam(0.05),
  adamax: () => tf.train.adamax(0.05),
  rmsprop: () => tf.train.rmsprop(0.02, 0.9, 0.5),
  'rmsprop centered': () => tf.train.rmsprop(0.02, 0.9, 0.5, 1e-3, true),
};

class Heads {
  readonly body = tf.variable(tf.tensor1d([0.5, -0.3]));
  readonly one = tf.variable(tf.tensor1d([1, 2]));
  readonly other = tf.variable(tf.tensor1d([-1, 0.5]));

  get all(): tf.Variable[] {
    return [this.body, this.one, this.other];
  }

  /** The loss is linear in `number`. The mean of the ranks' losses therefore equals the loss at the mean of their numbers. */
  loss(head: 'one' | 'other', number: number): tf.Scalar {
    const target = tf.mul(tf.square(tf.sub(this.body, this[head])), 0.5);
    return tf.add(tf.sum(target), tf.mul(tf.sum(this[head]), number)) as tf.Scalar;
  }

  numbers(): number[] {
    return this.all.flatMap((variable) => [...variable.dataSync()]);
  }
}

function expectNear(actual: readonly number[], expected: readonly number[]): void {
  expect(actual).toHaveLength(expected.length);
  for (const [index, value] of actual.entries()) {
    expect(Math.abs(value - (expected[index] as number))).toBeLessThan(1e-5);
  }
}

describe.each(Object.keys(OPTIMIZERS))('with %s', (name) => {
  const make = OPTIMIZERS[name] as () => tf.Optimizer;

  describe.each([1, 2, 3])('on %i ranks', (worldSize) => {
    const numberOf = (rank: number, step: number) => step * 0.1 + (rank - (worldSize - 1) / 2);

    async function compare(
      variablesOf: (heads: Heads, step: number) => tf.Variable[],
      prepare = (_: Heads, __: number) => {},
    ): Promise<void> {
      const headOf = (step: number) => (step % 2 === 0 ? 'one' : 'other');
      const trained = await onRanks(worldSize, async (steps, { rank }) => {
        const heads = new Heads();
        const optimizer = make();
        for (let step = 0; step < 6; step++) {
          prepare(heads, step);
          const loss = () => heads.loss(headOf(step), numberOf(rank, step));
          await steps.step(loss, optimizer, { variables: variablesOf(heads, step) });
        }
        return heads.numbers();
      });
      const heads = new Heads();
      const optimizer = make();
      for (let step = 0; step < 6; step++) {
        prepare(heads, step);
        plainStep(() => heads.loss(headOf(step), step * 0.1), optimizer, variablesOf(heads, step), heads.all);
      }
      for (const numbers of trained) {
        expectNear(numbers, heads.numbers());
      }
    }

    test('of two alternating heads, the head that the loss does not use keeps its values', async () => {
      await compare(({ all }) => all);
    });

    test('with lists that change from step to step, each listed variable trains with its own slots', async () => {
      await compare(({ body, one, other }, step) => [[one, body], [body], [one], [body, other, one]][step % 4] as tf.Variable[]);
    });

    test('a temporarily frozen variable keeps its values', async () => {
      await compare(
        ({ all }) => all,
        ({ body }, step) => {
          body.trainable = step < 2 || step > 3;
        },
      );
    });
  });
});

test('the number of examples weights each rank, and a rank without examples does not compute the loss', async () => {
  const counts = [
    [3, 1],
    [0, 5],
    [2, 2],
  ] as const;
  const results = await onRanks(2, async (steps, { rank }) => {
    const variable = tf.variable(tf.scalar(1));
    const optimizer = tf.train.sgd(0.1);
    const losses: number[] = [];
    for (const examples of counts) {
      const loss = () => {
        if (examples[rank] === 0) {
          throw new Error('the loss must not be computed without examples');
        }
        return tf.mul(variable, rank === 0 ? 2 : 6) as tf.Scalar;
      };
      losses.push(await steps.step(loss, optimizer, { variables: variable, examples: examples[rank] as number }));
    }
    return { value: variable.dataSync()[0] as number, losses };
  });
  const [first] = results;
  expect(first?.value).toBeCloseTo(1 - 0.1 * (3 + 6 + 4), 5);
  expect(first?.losses[0]).toBeCloseTo(3, 5);
  expect(results[1]).toEqual(first);
});

test('unknown options and invalid numbers of examples are rejected', () => {
  const check = (options: object) => () => checkCustomStepOptions('cluster.step', options);
  expect(check({ weight: 24 })).toThrow('cluster.step has no option weight');
  expect(check({ variable: [] })).toThrow('did you mean variables?');
  expect(check({ examples: -1 })).toThrow('examples of cluster.step is -1');
  expect(check({ examples: Number.NaN })).toThrow('examples of cluster.step is NaN');
  expect(check({ examples: 0, variables: [] })).not.toThrow();
});

test('a step for which no rank has examples is rejected', async () => {
  const attempt = (examples: number) =>
    onRanks(1, async (steps) => {
      const variable = tf.variable(tf.scalar(1));
      await steps.step(() => tf.square(variable) as tf.Scalar, tf.train.sgd(0.1), { variables: variable, examples });
    });
  await expect(attempt(0)).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining('no rank has examples') });
});

test('variables start with the values of rank 0, even if they are created after the first step', async () => {
  const results = await onRanks(3, async (steps, { rank }) => {
    const early = tf.variable(tf.scalar(rank + 10));
    const optimizer = tf.train.momentum(0.1, 0.9);
    await steps.step(() => tf.square(early) as tf.Scalar, optimizer, { variables: early });
    const late = tf.variable(tf.scalar(rank + 20));
    await steps.step(() => tf.add(early, tf.square(late)) as tf.Scalar, optimizer, { variables: [early, late] });
    return [early, late].map((variable) => variable.dataSync()[0] as number);
  });
  expect(results[0]?.[1]).toBeCloseTo(20 - 0.1 * 40, 4);
  expect(results[1]).toEqual(results[0]);
  expect(results[2]).toEqual(results[0]);
});

test('variables whose shapes differ between ranks are rejected by name before the first step', async () => {
  const attempt = onRanks(2, async (steps, { rank }) => {
    const variable = tf.variable(tf.zeros([3 + rank]), true, `weights of rank ${rank}`);
    await steps.step(() => tf.sum(tf.square(variable)) as tf.Scalar, tf.train.sgd(0.1), { variables: [variable] });
  });
  await expect(attempt).rejects.toMatchObject({
    code: 'RANKS_MISMATCH',
    message:
      'the ranks train different variables: variable 0 is weights of rank 0, float32 [3] on rank 0, but weights of rank 1, float32 [4] on rank 1',
  });
});

test('the option variables accepts models, layer weights and variables, and rejects anything else', async () => {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [2] })] });
  const scale = tf.variable(tf.scalar(2));
  const x = tf.ones([4, 2]);
  const step = (options: CustomStepOptions) =>
    onRanks(1, async (steps) => {
      const loss = () => tf.mean(tf.mul(tf.square(model.predict(x) as tf.Tensor), scale)) as tf.Scalar;
      await steps.step(loss, tf.train.sgd(0.1), options);
    });
  const before = model.getWeights().map((weight) => weight.dataSync()[0]);
  await step({ variables: [model, scale] });
  expect(model.getWeights().map((weight) => weight.dataSync()[0])).not.toEqual(before);
  expect(scale.dataSync()[0]).not.toBe(2);
  await step({ variables: model.trainableWeights });
  await step({ variables: model.layers[0]?.trainableWeights[1] as (typeof model.trainableWeights)[0] });
  await expect(step({ variables: [scale, tf.scalar(1) as tf.Variable] })).rejects.toThrow('variable 1 is not a tf.Variable');
  await expect(step({ variables: [] })).rejects.toThrow('there are no variables to train');
  scale.dispose();
  await expect(step({ variables: [scale] })).rejects.toThrow(/is disposed/);
});

test('the default list of variables excludes the counters of Adam and Adamax', () => {
  const early = tf.train.adam(0.1);
  const variable = tf.variable(tf.scalar(1));
  const late = tf.train.adamax(0.1);
  expect(allTrainable(tf, [early, late])).toEqual([variable]);
});

test('disposed optimizers and variables leak no more tensors than with plain TensorFlow.js', async () => {
  const trials = async (step: (loss: () => tf.Scalar, optimizer: tf.Optimizer, variable: tf.Variable) => Promise<unknown>) => {
    const counts: number[] = [];
    for (let trial = 0; trial < 12; trial++) {
      const variable = tf.tidy(() => tf.variable(tf.ones([50])));
      const optimizer = tf.train.adam(0.1);
      for (let each = 0; each < 3; each++) {
        await step(() => tf.sum(tf.square(variable)) as tf.Scalar, optimizer, variable);
      }
      optimizer.dispose();
      variable.dispose();
      counts.push(tf.memory().numTensors);
    }
    return (counts[11] as number) - (counts[2] as number);
  };
  const plain = await trials(async (loss, optimizer, variable) => optimizer.minimize(loss, false, [variable]));
  const [ours] = await onRanks(1, (steps) => trials((loss, optimizer, variables) => steps.step(loss, optimizer, { variables })));
  expect(ours).toBe(plain);
});

test('an optimizer that outlives its variables frees their slots', async () => {
  await onRanks(1, async (steps) => {
    const optimizer = tf.train.adam(0.1);
    const counts: number[] = [];
    for (let trial = 0; trial < 6; trial++) {
      const variable = tf.tidy(() => tf.variable(tf.ones([trial + 1])));
      await steps.step(() => tf.sum(tf.square(variable)) as tf.Scalar, optimizer, { variables: variable });
      expect(variable.dataSync()[0]).toBeLessThan(1);
      variable.dispose();
      counts.push(tf.memory().numTensors);
    }
    expect(counts.at(-1)).toBe(counts[1]);
  });
});

test('the moving averages of batch normalisation are the means over the ranks after each step', async () => {
  const results = await onRanks(2, async (steps, { rank }) => {
    const model = tf.sequential({
      layers: [tf.layers.batchNormalization({ inputShape: [1], momentum: 0.5 }), tf.layers.dense({ units: 1, kernelInitializer: 'ones' })],
    });
    const optimizer = tf.train.sgd(0);
    const moving = movingAveragesOf(model);
    // Rank 0 has three examples with mean 2, and rank 1 has one example with mean 6. All variances are 0.
    const loss = () => tf.mean(model.apply(tf.fill([4, 1], rank === 0 ? 2 : 6), { training: true }) as tf.Tensor) as tf.Scalar;
    await steps.step(loss, optimizer, { variables: model, examples: rank === 0 ? 3 : 1 });
    return moving.map((variable) => variable.dataSync()[0] as number);
  });
  expect(results[0]?.[0]).toBeCloseTo((3 * 1 + 1 * 3) / 4, 5);
  expect(results[0]?.[1]).toBeCloseTo(0.5, 5);
  expect(results[1]).toEqual(results[0]);
});

test('a broadcast preserves all bits of all types', async () => {
  const results = await onRanks(2, async (_, ring) => {
    const variables = [
      tf.variable(tf.tensor1d(ring.rank === 0 ? [16_777_217, -5] : [0, 0], 'int32')),
      tf.variable(tf.tensor1d(ring.rank === 0 ? [true, false] : [false, false], 'bool')),
      tf.variable(tf.scalar(ring.rank === 0 ? 0.1 : 0)),
    ];
    await broadcastVariables(tf, ring, variables);
    return variables.map((variable) => [...variable.dataSync()]);
  });
  expect(results[1]).toEqual([[16_777_217, -5], [1, 0], [Math.fround(0.1)]]);
  expect(results[0]).toEqual(results[1]);
});

test('a broadcast of variables with different shapes fails with an error that shows the shapes', async () => {
  const attempt = onRanks(2, async (_, ring) => {
    await broadcastVariables(tf, ring, [tf.variable(tf.zeros([ring.rank + 1]))]);
  });
  await expect(attempt).rejects.toThrow('rank 0 broadcasts float32 [1]; rank 1 expects float32 [2]');
});
