// Runs on the runtime's Node.js, which has the native backend. For each property, prints `NAME ok` or `NAME: the error`. Finally prints
// `done`.
import type * as tfjs from '@tensorflow/tfjs';
import fc from 'fast-check';
import type { NamedGradient } from '../../../optimizer/named-gradient.ts';
import { loadBackend } from '../../backend.ts';
import { FusedOptimizer } from '../fused-optimizer.ts';
import { nativeKernelsOf } from '../native-kernels.ts';
import { equal, holds } from './properties.ts';

const { tf } = await loadBackend(1, process.env);
equal(nativeKernelsOf(tf) === null, false);

// For some inputs, rounding errors exceed the tolerance, so the seed is fixed.
fc.configureGlobal({ seed: 1 });

const OPTIMIZERS: Readonly<Record<string, () => tfjs.Optimizer>> = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.05, 0.9),
  nesterov: () => tf.train.momentum(0.05, 0.9, true),
  adam: () => tf.train.adam(0.01),
  'adam with other settings': () => tf.train.adam(0.1, 0.5, 0.9, 1e-3),
  adamax: () => tf.train.adamax(0.01),
  'adamax with decay': () => tf.train.adamax(0.01, 0.8, 0.99, 1e-4, 0.1),
  adagrad: () => tf.train.adagrad(0.05),
  'adagrad with another initial accumulator': () => tf.train.adagrad(0.05, 2),
  rmsprop: () => tf.train.rmsprop(0.01),
  'rmsprop with momentum': () => tf.train.rmsprop(0.01, 0.8, 0.5, 1e-4),
  // Epsilon is 0 here, because TensorFlow.js subtracts epsilon under the square root, where the result could be negative. A separate
  // property tests epsilon.
  'rmsprop centered': () => tf.train.rmsprop(0.01, 0.9, 0.5, 0, true),
};

interface Run {
  readonly optimizer: tfjs.Optimizer;
  readonly variables: tfjs.Variable[];
}

type Slots = ({ readonly variable: tfjs.Variable } | undefined)[];

function begin(make: () => tfjs.Optimizer, shapes: readonly number[][], seed: number): Run {
  const variables = shapes.map((shape, index) => tf.tidy(() => tf.variable(tf.randomNormal(shape, 0, 1, 'float32', seed + index))));
  return { optimizer: make(), variables };
}

function end({ optimizer, variables }: Run): void {
  tf.dispose(variables);
  // TensorFlow.js's momentum optimizer does not dispose the `c` tensor, which it inherits from sgd.
  optimizer.dispose();
  if ('m' in optimizer) {
    (optimizer as unknown as { c: tfjs.Scalar }).c.dispose();
  }
}

function stateOf({ optimizer, variables }: Run): Map<string, Float32Array> {
  const state = new Map<string, Float32Array>();
  variables.forEach((variable, index) => {
    state.set(`variable ${index}`, variable.dataSync() as Float32Array);
  });
  for (const [property, value] of Object.entries(optimizer)) {
    if (value instanceof tf.Variable) {
      state.set(property, value.dataSync() as Float32Array);
    } else if (Array.isArray(value)) {
      (value as Slots).forEach((slot, index) => {
        if (slot !== undefined) {
          state.set(`${property} ${index}`, slot.variable.dataSync() as Float32Array);
        }
      });
    }
  }
  state.set('iterations', Float32Array.of(optimizer.iterations));
  return state;
}

/** Returns random gradients with a magnitude of about 10^exponent. The gradients and their squares must stay within the float32 range. */
function gradientsOf(run: Run, step: number, seed: number, exponent: number): { name: string; tensor: tfjs.Tensor }[] {
  return run.variables.map(({ name, shape }, index) => ({
    name,
    tensor: tf.tidy(() => tf.randomNormal(shape, 0, 1, 'float32', seed * 1000 + step * 10 + index).mul(10 ** exponent)),
  }));
}

function equalise(to: Run, from: Run): void {
  const slotsOf = ({ optimizer }: Run) => Object.values(optimizer).flatMap((value) => (Array.isArray(value) ? (value as Slots) : []));
  const sources = [...from.variables, ...slotsOf(from).map((slot) => slot?.variable)];
  [...to.variables, ...slotsOf(to).map((slot) => slot?.variable)].forEach((variable, index) => {
    variable?.assign(sources[index] as tfjs.Tensor);
  });
}

function compare(ours: Map<string, Float32Array>, theirs: Map<string, Float32Array>, before: Map<string, Float32Array>): void {
  if ([...ours.keys()].join() !== [...theirs.keys()].join()) {
    throw new Error(`${[...ours.keys()]} instead of ${[...theirs.keys()]}`);
  }
  for (const [name, expected] of theirs) {
    const actual = ours.get(name) as Float32Array;
    const start = before.get(name);
    expected.forEach((value, at) => {
      const got = actual[at] as number;
      // TensorFlow computes 1 - 0.999 in float32, with a relative error of 1.3e-5. TensorFlow.js has no such error.
      const moved = Math.abs(value - (start?.[at] ?? 0));
      const allowed = 3e-5 * moved + 5e-7 * Math.abs(value) + 1e-37;
      if (!(Math.abs(got - value) <= allowed || Object.is(got, value) || (Number.isNaN(got) && Number.isNaN(value)))) {
        throw new Error(`${name}[${at}] is ${got} instead of ${value}; before the step it was ${start?.[at]}`);
      }
    });
  }
}

const shapes = fc.array(fc.array(fc.integer({ min: 1, max: 7 }), { maxLength: 4 }), { minLength: 1, maxLength: 3 });
const seed = fc.integer({ min: 1, max: 1e6 });

for (const [name, make] of Object.entries(OPTIMIZERS)) {
  // Without epsilon, squares below 1e-38 lose precision and would change the result.
  const smallest = name === 'rmsprop centered' ? -17 : -30;
  await holds(`${name} computes the same as in TensorFlow.js`, () => {
    fc.assert(
      fc.property(
        shapes,
        seed,
        fc.array(fc.integer({ min: smallest, max: 6 }), { minLength: 1, maxLength: 6 }),
        (shapes, seed, exponents) => {
          const [ours, theirs] = [begin(make, shapes, seed), begin(make, shapes, seed)];
          const fused = new FusedOptimizer(tf, ours.optimizer);
          exponents.forEach((exponent, step) => {
            const before = stateOf(theirs);
            for (const [run, apply] of [
              [ours, (gradients: NamedGradient[]) => fused.apply(gradients)],
              [
                theirs,
                (gradients: NamedGradient[]) =>
                  theirs.optimizer.applyGradients(gradients as Parameters<tfjs.Optimizer['applyGradients']>[0]),
              ],
            ] as const) {
              const gradients = gradientsOf(run, step, seed, exponent);
              apply(gradients);
              tf.dispose(gradients.map(({ tensor }) => tensor));
            }
            compare(stateOf(ours), stateOf(theirs), before);
            // Every step starts from equal values, so errors do not accumulate.
            equalise(ours, theirs);
          });
          equal(fused.reason, null);
          fused.dispose();
          end(ours);
          end(theirs);
        },
      ),
      { numRuns: 20 },
    );
  });
}

await holds('centered rmsprop subtracts epsilon, as TensorFlow.js does', () => {
  const make = () => tf.train.rmsprop(0.01, 0.9, 0.5, 0.05, true);
  const [ours, theirs] = [begin(make, [[3]], 1), begin(make, [[3]], 1)];
  const fused = new FusedOptimizer(tf, ours.optimizer);
  const before = stateOf(theirs);
  for (let step = 0; step < 3; step++) {
    const tensor = tf.tensor1d([1 + step, 2, -3]);
    fused.apply([{ name: ours.variables[0]?.name as string, tensor }]);
    theirs.optimizer.applyGradients([{ name: theirs.variables[0]?.name as string, tensor }]);
    tensor.dispose();
  }
  compare(stateOf(ours), stateOf(theirs), before);
  fused.dispose();
  end(ours);
  end(theirs);
});

await holds('fused steps and steps of the optimizer itself can alternate', () => {
  for (const make of Object.values(OPTIMIZERS)) {
    const [ours, theirs] = [begin(make, [[3, 2], [4]], 5), begin(make, [[3, 2], [4]], 5)];
    const fused = new FusedOptimizer(tf, ours.optimizer);
    const before = stateOf(theirs);
    for (let step = 0; step < 12; step++) {
      const gradients = [gradientsOf(ours, step, 7, -1), gradientsOf(theirs, step, 7, -1)] as const;
      if (step % 3 === 2) {
        ours.optimizer.applyGradients(gradients[0]);
      } else {
        fused.apply(gradients[0]);
      }
      theirs.optimizer.applyGradients(gradients[1]);
      tf.dispose(gradients.flat().map(({ tensor }) => tensor));
    }
    compare(stateOf(ours), stateOf(theirs), before);
    equal(fused.reason, null);
    fused.dispose();
    end(ours);
    end(theirs);
  }
});

await holds('values that the program assigns take effect, and clones keep their values', () => {
  const run = begin(() => tf.train.sgd(1), [[2]], 1);
  const [variable] = run.variables as [tfjs.Variable];
  const fused = new FusedOptimizer(tf, run.optimizer);
  const gradient = { name: variable.name, tensor: tf.tensor1d([1, 2]) };
  fused.apply([gradient]);
  tf.tidy(() => variable.assign(tf.tensor1d([10, 20])));
  fused.apply([gradient]);
  equal([...variable.dataSync()], [9, 18]);
  const clone = variable.clone();
  fused.apply([gradient]);
  fused.apply([gradient]);
  equal([...clone.dataSync()], [9, 18]);
  equal([...variable.dataSync()], [7, 14]);
  // A rebuilt model creates variables with the same names as the earlier ones.
  const { name } = variable;
  variable.dispose();
  const again = tf.variable(tf.tensor1d([5, 5]), true, name);
  fused.apply([gradient]);
  equal([...again.dataSync()], [4, 3]);
  tf.dispose([clone, again, gradient.tensor]);
  fused.dispose();
  end({ ...run, variables: [] });
});

await holds('a changed learning rate takes effect in the next step', () => {
  for (const [make, change] of [
    [() => tf.train.sgd(1), (optimizer: tfjs.Optimizer) => (optimizer as tfjs.SGDOptimizer).setLearningRate(0.25)],
    [() => tf.train.adam(1), (optimizer: tfjs.Optimizer) => Object.assign(optimizer, { learningRate: 0.25 })],
  ] as const) {
    const [ours, theirs] = [begin(make, [[3]], 1), begin(make, [[3]], 1)];
    const fused = new FusedOptimizer(tf, ours.optimizer);
    const before = stateOf(theirs);
    for (let step = 0; step < 4; step++) {
      if (step === 2) {
        change(ours.optimizer);
        change(theirs.optimizer);
      }
      const gradients = [gradientsOf(ours, step, 3, 0), gradientsOf(theirs, step, 3, 0)] as const;
      fused.apply(gradients[0]);
      theirs.optimizer.applyGradients(gradients[1]);
      tf.dispose(gradients.flat().map(({ tensor }) => tensor));
    }
    compare(stateOf(ours), stateOf(theirs), before);
    fused.dispose();
    end(ours);
    end(theirs);
  }
});

await holds("TensorFlow.js's getWeights and setWeights copy the state of an optimizer after fused steps", async () => {
  for (const name of ['adam', 'momentum', 'rmsprop centered', 'adagrad']) {
    const make = OPTIMIZERS[name] as () => tfjs.Optimizer;
    const [ours, theirs] = [begin(make, [[3, 2], [4]], 5), begin(make, [[3, 2], [4]], 5)];
    let fused = new FusedOptimizer(tf, ours.optimizer);
    const before = stateOf(theirs);
    const both = (steps: number, from: number) => {
      for (let step = from; step < from + steps; step++) {
        const gradients = [gradientsOf(ours, step, 7, 0), gradientsOf(theirs, step, 7, 0)] as const;
        fused.apply(gradients[0]);
        theirs.optimizer.applyGradients(gradients[1]);
        tf.dispose(gradients.flat().map(({ tensor }) => tensor));
      }
    };
    both(3, 0);
    for (const run of [ours, theirs]) {
      const saved = await run.optimizer.getWeights();
      const copies = saved.map(({ name, tensor }) => ({ name, tensor: tf.clone(tensor) }));
      const next = make();
      await next.setWeights(copies);
      tf.dispose(copies.map(({ tensor }) => tensor));
      saved[0]?.tensor.dispose();
      end({ optimizer: run.optimizer, variables: [] });
      (run as { optimizer: tfjs.Optimizer }).optimizer = next;
    }
    fused.dispose();
    fused = new FusedOptimizer(tf, ours.optimizer);
    both(3, 3);
    compare(stateOf(ours), stateOf(theirs), before);
    equal(fused.reason, null);
    fused.dispose();
    end(ours);
    end(theirs);
  }
});

await holds('TensorFlow.js takes the steps if no kernel is correct, and `reason` says why', () => {
  class OwnOptimizer extends tf.SGDOptimizer {
    static override get className(): string {
      return 'Own';
    }
  }
  const reasons = [() => tf.train.adadelta(0.1), () => tf.train.adagrad(0.1, 0.001), () => new OwnOptimizer(0.1)].map((make) => {
    const [ours, theirs] = [begin(make, [[3]], 1), begin(make, [[3]], 1)];
    const fused = new FusedOptimizer(tf, ours.optimizer);
    const gradients = [gradientsOf(ours, 0, 3, 0), gradientsOf(theirs, 0, 3, 0)] as const;
    fused.apply(gradients[0]);
    theirs.optimizer.applyGradients(gradients[1]);
    tf.dispose(gradients.flat().map(({ tensor }) => tensor));
    equal([...(ours.variables[0] as tfjs.Variable).dataSync()], [...(theirs.variables[0] as tfjs.Variable).dataSync()]);
    fused.dispose();
    end(ours);
    end(theirs);
    return fused.reason;
  });
  equal(reasons, [
    "TensorFlow's adadelta kernel uses a different formula from TensorFlow.js",
    "TensorFlow's adagrad kernel is inaccurate for accumulators below 0.05",
    'the optimizer OwnOptimizer has no native kernel',
  ]);
});

await holds('an accumulator that becomes too small, for example from a checkpoint, disables the fused steps', () => {
  const run = begin(() => tf.train.adagrad(0.1), [[2]], 1);
  const fused = new FusedOptimizer(tf, run.optimizer);
  const gradients = gradientsOf(run, 0, 1, 0);
  fused.apply(gradients);
  equal(fused.reason, null);
  const [slot] = (run.optimizer as unknown as { accumulatedGrads: { variable: tfjs.Variable }[] }).accumulatedGrads;
  tf.tidy(() => slot?.variable.assign(tf.tensor1d([0.2, 0.01])));
  fused.apply(gradients);
  equal(fused.reason?.endsWith('/accumulator has values below 0.05'), true);
  tf.dispose(gradients.map(({ tensor }) => tensor));
  end(run);
});

await holds('a variable without a gradient keeps its value and gets slots, as in TensorFlow.js', () => {
  const run = begin(() => tf.train.adam(0.1), [[2], [3]], 1);
  const fused = new FusedOptimizer(tf, run.optimizer);
  const gradients = gradientsOf(run, 0, 1, 0);
  const before = [...(run.variables[1] as tfjs.Variable).dataSync()];
  const unused = gradients[1] as { name: string; tensor: tfjs.Tensor | null };
  unused.tensor?.dispose();
  unused.tensor = null;
  fused.apply(gradients);
  equal([...(run.variables[1] as tfjs.Variable).dataSync()], before);
  equal([...stateOf(run).keys()].length, 2 + 4 + 2 + 1);
  fused.dispose();
  gradients[0]?.tensor.dispose();
  end(run);
});

await holds('a hundred steps leak no tensors', () => {
  for (const make of Object.values(OPTIMIZERS)) {
    const atFirst = tf.memory().numTensors;
    const run = begin(make, [[3, 2], [4]], 5);
    const fused = new FusedOptimizer(tf, run.optimizer);
    const gradients = gradientsOf(run, 0, 7, -1);
    fused.apply(gradients);
    const before = tf.memory();
    for (let step = 0; step < 100; step++) {
      fused.apply(gradients);
    }
    equal([tf.memory().numTensors, tf.memory().numBytes], [before.numTensors, before.numBytes]);
    fused.dispose();
    tf.dispose(gradients.map(({ tensor }) => tensor));
    end(run);
    equal(tf.memory().numTensors, atFirst);
  }
});

console.log('done');
