import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { separatePart } from '../../model/separate-gradients.ts';
import type { StepPart } from '../../model/step-part.ts';
import type { Ring } from '../../ring/ring.ts';
import { ringOf } from '../../testing/resources.ts';
import { Stepper, type StepperOptions } from './step.ts';

beforeAll(async () => {
  await tf.setBackend('cpu');
});

const COUNT = 24;
const X = Float32Array.from({ length: COUNT * 3 }, (_, index) => Math.sin(index * 1.3) * 2);
const Y = Float32Array.from({ length: COUNT }, (_, index) => Math.cos(index));

/** A linear model with an extra variable, `unused`, that does not influence the loss. */
class Learner {
  readonly w: tf.Variable;
  readonly b: tf.Variable;
  readonly unused: tf.Variable;

  constructor() {
    this.w = tf.variable(tf.tensor2d([0.5, -0.3, 0.2], [3, 1]));
    this.b = tf.variable(tf.tensor1d([0.1]));
    this.unused = tf.variable(tf.tensor1d([7]));
  }

  get variables(): tf.Variable[] {
    return [this.w, this.unused, this.b];
  }

  /** Returns a part with the examples from <= i < to. The metric is the mean output. */
  part(from: number, to: number, weight: number): StepPart {
    const compute = () => {
      const x = tf.tensor2d(X.subarray(from * 3, to * 3), [to - from, 3]);
      const y = tf.tensor2d(Y.subarray(from, to), [to - from, 1]);
      const output = tf.add(tf.matMul(x, this.w as tf.Tensor2D), this.b);
      return { loss: tf.mean(tf.square(tf.sub(output, y))) as tf.Scalar, metrics: [tf.keep(tf.mean(output) as tf.Scalar)] };
    };
    return separatePart(tf, from === to ? null : compute, weight);
  }

  numbers(): number[] {
    return this.variables.flatMap((variable) => [...variable.dataSync()]);
  }
}

/** Generates random divisions of all COUNT examples among ranks and micro-batches. */
const cuts = (ranks: number, parts: number) =>
  fc.array(fc.integer({ min: 0, max: COUNT }), { minLength: ranks * parts - 1, maxLength: ranks * parts - 1 }).map((inner) => {
    const edges = [0, ...inner.sort((one, other) => one - other), COUNT];
    return Array.from({ length: ranks }, (_, rank) =>
      Array.from({ length: parts }, (_, part) => [edges[rank * parts + part] as number, edges[rank * parts + part + 1] as number] as const),
    );
  });

const OPTIMIZERS: Readonly<Record<string, () => tf.Optimizer>> = {
  sgd: () => tf.train.sgd(0.05),
  momentum: () => tf.train.momentum(0.02, 0.9),
  adam: () => tf.train.adam(0.01),
};

async function train(
  worldSize: number,
  shares: readonly (readonly (readonly [number, number])[])[],
  makeOptimizer: () => tf.Optimizer,
  options: StepperOptions,
  steps = 4,
): Promise<{ learners: Learner[]; values: (readonly number[])[][] }> {
  const made = await ringOf(worldSize);
  const learners = made.map(() => new Learner());
  const values = await Promise.all(
    made.map(async (ring, rank) => {
      const learner = learners[rank] as Learner;
      const stepper = new Stepper(tf, ring, makeOptimizer(), learner.variables, { metrics: 1, ...options });
      const all: (readonly number[])[] = [];
      for (let step = 0; step < steps; step++) {
        const parts = (shares[rank] as (readonly [number, number])[]).map(([from, to]) => learner.part(from, to, (to - from) / COUNT));
        all.push((await stepper.run(parts)).read());
      }
      stepper.dispose();
      return all;
    }),
  );
  return { learners, values };
}

function expectNear(actual: readonly number[], expected: readonly number[], tolerance = 1e-5): void {
  expect(actual.length).toBe(expected.length);
  actual.forEach((value, index) => {
    expect(Math.abs(value - (expected[index] as number))).toBeLessThan(tolerance);
  });
}

describe.each(Object.keys(OPTIMIZERS))('with %s', (name) => {
  const makeOptimizer = OPTIMIZERS[name] as () => tf.Optimizer;

  test('steps equal those on the whole batch for any division of the examples into ranks and micro-batches', async () => {
    const { learners, values } = await train(1, [[[0, COUNT]]], makeOptimizer, {});
    const expected = learners[0] as Learner;
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom([1, 3], [2, 1], [2, 2], [3, 1], [3, 2]).chain(([ranks = 1, parts = 1]) => cuts(ranks, parts)),
        fc.constantFrom({}, { verifyEverySteps: 1 }),
        async (shares, options) => {
          const result = await train(shares.length, shares, makeOptimizer, options);
          for (const [rank, learner] of result.learners.entries()) {
            expectNear(learner.numbers(), expected.numbers());
            expect(learner.numbers()).toEqual(result.learners[0]?.numbers());
            expect(result.values[rank]).toEqual(result.values[0]);
            for (const [step, value] of (result.values[rank] ?? []).entries()) {
              expectNear(value, values[0]?.[step] as readonly number[]);
            }
          }
        },
      ),
      { numRuns: 15 },
    );
  });

  test('clipping applies to the summed gradient, not to the gradients of the ranks', async () => {
    for (const options of [{ clipNorm: 0.05 }, { clipNorm: 1000 }, { clipValue: 0.02 }]) {
      const alone = await train(1, [[[0, COUNT]]], makeOptimizer, options);
      const together = await train(3, [[[0, 3]], [[3, 20]], [[20, COUNT]]], makeOptimizer, options);
      for (const learner of together.learners) {
        expectNear(learner.numbers(), (alone.learners[0] as Learner).numbers());
      }
    }
  });

  test('with float16, all ranks hold identical values, close to those with float32', async () => {
    const shares = [[[0, 5]], [[5, 14]], [[14, COUNT]]] as const;
    const [full, half] = [await train(3, shares, makeOptimizer, {}), await train(3, shares, makeOptimizer, { wire: 'float16' })];
    const [first] = half.learners as [Learner];
    for (const learner of half.learners) {
      expect(learner.numbers()).toEqual(first.numbers());
    }
    expectNear(first.numbers(), (full.learners[0] as Learner).numbers(), 5e-3);
    // The loss is always sent as float32.
    expectNear(half.values[0]?.[0] as readonly number[], full.values[0]?.[0] as readonly number[], 1e-6);
  });
});

test('clipNorm limits the global norm of the gradient', async () => {
  const { learners } = await train(1, [[[0, COUNT]]], () => tf.train.sgd(1), { clipNorm: 0.05 }, 1);
  const before = new Learner().numbers();
  const moved = (learners[0] as Learner).numbers().map((value, index) => value - (before[index] as number));
  expect(Math.hypot(...moved)).toBeCloseTo(0.05, 6);
  const [ring] = (await ringOf(1)) as [Ring];
  expect(() => new Stepper(tf, ring, tf.train.sgd(1), [], { clipNorm: 0 })).toThrow('clipNorm is 0');
  expect(() => new Stepper(tf, ring, tf.train.sgd(1), [], { clipNorm: 1, clipValue: 1 })).toThrow('cannot be combined');
});

test('a step sums signals over the ranks', async () => {
  const made = await ringOf(2);
  const sums = await Promise.all(
    made.map(async (ring, rank) => {
      const learner = new Learner();
      const stepper = new Stepper(tf, ring, tf.train.sgd(0.1), learner.variables, { metrics: 1, signals: 3 });
      const signals = Float32Array.of(rank, 10, rank * 100);
      await stepper.run([learner.part(rank * 12, rank * 12 + 12, 0.5)], signals);
      return [...signals];
    }),
  );
  expect(sums).toEqual([
    [1, 20, 100],
    [1, 20, 100],
  ]);
});

describe('verification of ranks with different weights', () => {
  test.each([
    [2, 'rank 0 versus rank 1'],
    [4, 'rank 1 differs from ranks 0, 2 and 3'],
  ])('finds the rank that differs among %i ranks, and names the first variable that differs', async (worldSize, who) => {
    const made = await ringOf(worldSize);
    const learners = made.map(() => new Learner());
    const ran = made.map(async (ring, rank) => {
      const learner = learners[rank] as Learner;
      const stepper = new Stepper(tf, ring, tf.train.sgd(0.01), learner.variables, { metrics: 1, verifyEverySteps: 3 });
      for (let step = 1; step <= 9; step++) {
        await stepper.run([learner.part(rank * 6, rank * 6 + 6, 1 / worldSize)]);
        if (step === 4 && rank === 1) {
          // Makes two variables differ: the first one by a single bit, and a later one.
          learner.unused.assign(tf.tensor1d([7.0000005]));
          learner.b.assign(tf.tensor1d([0]));
        }
      }
    });
    for (const outcome of await Promise.allSettled(ran)) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: {
          code: 'RANKS_MISMATCH',
          message: expect.stringMatching(/^after 6 steps the ranks hold different values of the variable .+: /),
        },
      });
      const { message } = (outcome as PromiseRejectedResult).reason as Error;
      expect(message).toContain(who);
      expect(learners.some(({ unused }) => message.includes(`variable ${unused.name}:`))).toBe(true);
    }
  });
});

test('a single worker reads losses late, leaks no tensors, and yields the thread to other work', async () => {
  const [ring] = (await ringOf(1)) as [Ring];
  const learner = new Learner();
  const stepper = new Stepper(tf, ring, tf.train.adam(0.01), learner.variables, { metrics: 1, clipNorm: 1 });
  await stepper.run([learner.part(0, COUNT, 1)]);
  stepper.dispose();
  const before = tf.memory().numTensors;
  let ticks = 0;
  const timer = setInterval(() => ticks++, 5);
  const values = [];
  for (let step = 0; step < 300; step++) {
    values.push(await stepper.run([learner.part(0, 10, 10 / COUNT), learner.part(10, COUNT, 14 / COUNT)]));
  }
  clearInterval(timer);
  expect(ticks).toBeGreaterThan(1);
  // The stepper has read the oldest losses, so tensors do not accumulate.
  expect(values[0]?.read()[0]).toBeGreaterThan(values.at(-1)?.read()[0] as number);
  stepper.dispose();
  expect(tf.memory().numTensors).toBe(before);
});
