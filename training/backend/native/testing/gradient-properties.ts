// Runs on the runtime's Node.js, which has the native backend. For each property, prints `NAME ok` or `NAME: the error`. Finally prints
// `done`.
import type * as tfjs from '@tensorflow/tfjs';
import fc from 'fast-check';
import { loadBackend } from '../../backend.ts';
import { categoricalCrossentropy, type LossFunction, sparseCategoricalCrossentropy } from '../categorical-crossentropy.ts';
import { installNativeKernels, nativeKernelsOf, uninstallNativeKernels } from '../native-kernels.ts';
import { equal, holds } from './properties.ts';

const { tf } = await loadBackend(1, process.env);

// For some inputs, rounding errors exceed the tolerance, so the seed is fixed.
fc.configureGlobal({ seed: 1 });

/** A function whose gradients the test compares. The inputs must not be close to a kink in the function. */
interface Case {
  readonly inputs: readonly tfjs.Tensor[];
  readonly compute: (...inputs: tfjs.Tensor[]) => tfjs.Tensor;
}

/** Returns the gradients of a weighted sum of the results. Different weights give each element a different gradient. */
function gradients({ inputs, compute }: Case): Float32Array[] {
  return tf.tidy(() => {
    const weighted = (...given: tfjs.Tensor[]) => {
      const result = compute(...given);
      return tf.sum(tf.mul(result, tf.cos(tf.range(0, result.size).reshape(result.shape))));
    };
    return tf
      .grads(weighted)([...inputs])
      .map((gradient) => gradient.dataSync() as Float32Array);
  });
}

function compareGradients(of: Case, tolerance = 2e-6): void {
  uninstallNativeKernels(tf);
  const before = tf.memory().numTensors;
  const expected = gradients(of);
  installNativeKernels(tf);
  const actual = gradients(of);
  equal(tf.memory().numTensors, before);
  // The tolerance depends on the largest gradient across all inputs, because rounding errors remain when the terms of a bias gradient
  // cancel.
  const largest = expected.reduce((most, values) => values.reduce((greatest, value) => Math.max(greatest, Math.abs(value)), most), 0);
  expected.forEach((values, input) => {
    values.forEach((value, at) => {
      const got = actual[input]?.[at] as number;
      if (!(Math.abs(got - value) <= tolerance * (Math.abs(value) + largest))) {
        throw new Error(`the gradient of input ${input} at index ${at} is ${got} instead of ${value}`);
      }
    });
  });
}

const size = fc.integer({ min: 1, max: 6 });
const seed = fc.integer({ min: 1, max: 1e6 });
const anyShape = fc.array(size, { minLength: 1, maxLength: 4 });
const normal = (shape: readonly number[], seed: number, scale = 1) => tf.randomNormal([...shape], 0, scale, 'float32', seed);

async function property<T>(name: string, arbitrary: fc.Arbitrary<T>, make: (value: T) => Case, tolerance?: number): Promise<void> {
  await holds(`the gradient of ${name} equals TensorFlow.js's`, () => {
    fc.assert(
      fc.property(arbitrary, (value) => {
        tf.tidy(() => compareGradients(make(value), tolerance));
      }),
      { numRuns: 15 },
    );
  });
}

const ACTIVATIONS: Readonly<Record<string, (x: tfjs.Tensor) => tfjs.Tensor>> = {
  relu: (x) => tf.relu(x),
  sigmoid: (x) => tf.sigmoid(x),
  softplus: (x) => tf.softplus(x),
  tanh: (x) => tf.tanh(x),
};
for (const [name, activation] of Object.entries(ACTIVATIONS)) {
  await property(name, fc.tuple(anyShape, seed, fc.constantFrom(1e-6, 1, 20)), ([shape, seed, scale]) => ({
    inputs: [normal(shape, seed, scale)],
    compute: activation as (x: tfjs.Tensor) => tfjs.Tensor,
  }));
}

await property('relu at zero', fc.tuple(anyShape, seed), ([shape, seed]) => ({
  inputs: [tf.mul(normal(shape, seed), tf.randomUniform(shape, 0, 1, 'float32', seed).greater(0.8))],
  compute: (x) => tf.relu(x),
}));

const broadcast = fc
  .tuple(anyShape, fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }), fc.integer({ min: 0, max: 4 }), fc.boolean())
  .map(([shape, ones, dropped, swap]) => {
    const other = shape.map((size, axis) => (ones[axis] ? 1 : size)).slice(Math.min(dropped, shape.length));
    return swap ? ([other, shape] as const) : ([shape, other] as const);
  });
for (const [name, compute] of Object.entries({
  addition: (a: tfjs.Tensor, b: tfjs.Tensor) => tf.add(a, b),
  multiplication: (a: tfjs.Tensor, b: tfjs.Tensor) => tf.mul(a, b),
})) {
  await property(name, fc.tuple(broadcast, seed), ([[one, other], seed]) => ({
    inputs: [normal(one, seed), normal(other, seed + 1)],
    compute: compute as Case['compute'],
  }));
  await property(`${name} of a tensor with itself`, fc.tuple(anyShape, seed), ([shape, seed]) => ({
    inputs: [normal(shape, seed)],
    compute: (x) => tf.add(compute(x as tfjs.Tensor, x as tfjs.Tensor), compute(x as tfjs.Tensor, tf.relu(x as tfjs.Tensor))),
  }));
}
await property('multiplication of floats by integers', fc.tuple(anyShape, seed), ([shape, seed]) => ({
  inputs: [normal(shape, seed)],
  compute: (x) => tf.mul(x as tfjs.Tensor, tf.cast(tf.mul(normal(shape, seed + 1), 10), 'int32')),
}));

const axes = fc.tuple(anyShape, fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }), fc.boolean(), seed);
for (const [name, compute] of Object.entries({
  sum: (x: tfjs.Tensor, axes: number[], keep: boolean) => tf.sum(x, axes, keep),
  mean: (x: tfjs.Tensor, axes: number[], keep: boolean) => tf.mean(x, axes, keep),
})) {
  await property(name, axes, ([shape, chosen, keep, seed]) => {
    const list = shape.map((_, axis) => axis).filter((axis) => chosen[axis]);
    return { inputs: [normal(shape, seed)], compute: (x) => compute(x as tfjs.Tensor, list, keep) };
  });
}

await property(
  'tile',
  fc.tuple(anyShape, fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 4, maxLength: 4 }), seed),
  ([shape, reps, seed]) => ({
    inputs: [normal(shape, seed)],
    compute: (x) => tf.tile(x as tfjs.Tensor, reps.slice(0, shape.length)),
  }),
);

type Classified = typeof classified extends fc.Arbitrary<infer T> ? T : never;
const classified = fc.record({
  shape: fc
    .tuple(fc.array(size, { minLength: 1, maxLength: 2 }), fc.integer({ min: 2, max: 9 }))
    .map(([rows, classes]) => [...rows, classes]),
  scale: fc.constantFrom(1e-6, 1),
  // 'one' stands for one-hot labels, 'smooth' for smoothed labels, and 'none' for rows of zeros.
  labels: fc.constantFrom('one', 'smooth', 'none'),
  seed,
});
const crossentropy = categoricalCrossentropy(tf, (target, output) => tf.metrics.categoricalCrossentropy(target, output));
const DIFFERENCE_TOLERANCE = 1e-5;
const crossentropyOfSoftmax = ({ shape, scale, labels, seed }: Classified) => {
  const classes = shape.at(-1) as number;
  const indices = tf.randomUniform(shape.slice(0, -1), 0, classes, 'int32', seed);
  const one = tf.oneHot(indices as tfjs.Tensor1D, classes, labels === 'none' ? 0 : 1) as tfjs.Tensor;
  const target = labels === 'smooth' ? tf.add(tf.mul(one, 0.8), 0.2 / classes) : one;
  return {
    inputs: [normal(shape, seed, scale)],
    compute: (logits: tfjs.Tensor) => crossentropy(target, tf.softmax(logits)),
  };
};
await property('categorical crossentropy of softmax', classified, crossentropyOfSoftmax, DIFFERENCE_TOLERANCE);
// TensorFlow.js exposes its sparse categorical crossentropy only through a compiled model.
const sparseModel = tf.sequential({ layers: [tf.layers.dense({ units: 2, inputShape: [1] })] });
sparseModel.compile({ optimizer: 'sgd', loss: 'sparseCategoricalCrossentropy' });
const [sparseOwn] = (sparseModel as unknown as { readonly model: { readonly lossFunctions: [LossFunction] } }).model.lossFunctions;
const sparse = sparseCategoricalCrossentropy(tf, sparseOwn);
await property(
  'sparse categorical crossentropy of softmax',
  classified,
  ({ shape, scale, labels, seed }) => {
    const classes = shape.at(-1) as number;
    const beyond = labels === 'none' ? 1 : 0;
    const indices = tf.randomUniform(shape.slice(0, -1), -beyond, classes + beyond, 'float32', seed);
    const target = labels === 'smooth' ? tf.expandDims(indices, -1) : tf.floor(indices);
    return { inputs: [normal(shape, seed, scale)], compute: (logits: tfjs.Tensor) => sparse(target, tf.softmax(logits)) };
  },
  DIFFERENCE_TOLERANCE,
);
await property('categorical crossentropy of clipped and of unnormalised probabilities', fc.constantFrom(0.5, 1, 3), (factor) => {
  const rows = [
    [1, 0, 0],
    [0, 0.25, 0.75],
    [1e-9, 0.5, 0.5],
    [0.2, 0.3, 0.5],
  ];
  return {
    inputs: [tf.mul(tf.tensor2d(rows), factor)],
    compute: (output) => {
      const targets = [0, 1, 2].map((shift) =>
        tf.tensor2d(rows.map((_, row) => [0, 1, 2].map((at) => ((row + shift) % 3 === at ? 1 : 0)))),
      );
      return tf.stack([
        ...targets.map((target) => crossentropy(target, output as tfjs.Tensor)),
        ...[0, 1, 2].map((label) => sparse(tf.fill([rows.length], label), output as tfjs.Tensor)),
      ]);
    },
  };
});
await property(
  'softmax',
  classified,
  ({ shape, scale, seed }) => ({
    inputs: [normal(shape, seed, scale)],
    compute: (x) => tf.softmax(x as tfjs.Tensor),
  }),
  DIFFERENCE_TOLERANCE,
);

const pooling = fc.record({
  batch: fc.integer({ min: 1, max: 3 }),
  height: fc.integer({ min: 3, max: 9 }),
  width: fc.integer({ min: 3, max: 9 }),
  channels: size,
  filter: fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 3 })),
  strides: fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 4 })),
  pad: fc.constantFrom('valid' as const, 'same' as const),
  seed,
});
for (const ties of [false, true]) {
  await property(`max pooling${ties ? ' with ties' : ''}`, pooling, ({ batch, height, width, channels, filter, strides, pad, seed }) => {
    const x = normal([batch, height, width, channels], seed, 2) as tfjs.Tensor4D;
    return { inputs: [ties ? tf.round(x) : x], compute: (given) => tf.maxPool(given as tfjs.Tensor4D, filter, strides, pad) };
  });
}

await property(
  'batch normalisation',
  pooling,
  ({ batch, height, width, channels, seed }) => ({
    inputs: [
      normal([batch, height, width, channels], seed),
      normal([channels], seed + 1),
      tf.add(tf.square(normal([channels], seed + 2)), 0.1),
      normal([channels], seed + 3),
      normal([channels], seed + 4),
    ],
    // TensorFlow.js cannot compute the gradient without a scale.
    compute: (x, mean, variance, offset, scale) =>
      tf.batchNorm(
        x as tfjs.Tensor4D,
        mean as tfjs.Tensor1D,
        variance as tfjs.Tensor1D,
        offset as tfjs.Tensor1D,
        scale as tfjs.Tensor1D,
        1e-3,
      ),
  }),
  1e-5,
);

await holds('installing native kernels does not change second-order gradients', () => {
  const second = () =>
    tf.tidy(() => {
      const x = normal([4, 3], 5);
      const f = (given: tfjs.Tensor) => tf.sum(tf.mul(tf.tanh(tf.add(tf.relu(given), tf.tensor1d([1, 2, 3]))), tf.sigmoid(given)));
      return [
        ...tf
          .grad((given) => tf.sum(tf.square(tf.grad(f)(given as tfjs.Tensor))))(x)
          .dataSync(),
      ];
    });
  uninstallNativeKernels(tf);
  const expected = second();
  installNativeKernels(tf);
  equal(second(), expected);
});

await holds('installing native kernels does not change gradients on other backends', async () => {
  installNativeKernels(tf);
  const gradient = () =>
    tf.tidy(() => [
      ...tf
        .grad((x) => tf.sum(tf.relu(x as tfjs.Tensor)))(tf.tensor1d([-1, 2]))
        .dataSync(),
    ]);
  await tf.setBackend('cpu');
  equal(gradient(), [0, 1]);
  await tf.setBackend('tensorflow');
  equal(gradient(), [0, 1]);
});

await holds('one uninstall removes native kernels that were installed twice', () => {
  const name = 'Relu';
  uninstallNativeKernels(tf);
  const own = tf.getGradient(name);
  installNativeKernels(tf);
  installNativeKernels(tf);
  equal(tf.getGradient(name) === own, false);
  uninstallNativeKernels(tf);
  equal(tf.getGradient(name) === own, true);
  equal(nativeKernelsOf(tf), null);
});

console.log('done');
