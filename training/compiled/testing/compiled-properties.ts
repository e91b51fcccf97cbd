/**
 * Compares compiled steps with separate operations, for models that together use the layers of TensorFlow.js. Prints a line for each
 * property; see properties.ts.
 */

import type * as tfjs from '@tensorflow/tfjs';
import { createRandom, withRandom } from '../../../platform/random.ts';
import { loadBackend } from '../../backend/backend.ts';
import type { NativeBackend } from '../../backend/native/native-backend.ts';
import { nativeKernelsOf } from '../../backend/native/native-kernels.ts';
import { equal, holds } from '../../backend/native/testing/properties.ts';
import { inspectModel } from '../../model/compiled-model.ts';
import { separatePart } from '../../model/separate-gradients.ts';
import { localGradients } from '../../strategy/local-gradients.ts';
import { CompiledStep } from '../compiled-step.ts';

const { tf } = await loadBackend(1, process.env);
const native = nativeKernelsOf(tf) as NativeBackend;
const { layers } = tf;
const EXAMPLES = 6;
const CLASSES = 4;

interface Model {
  readonly inputShape: readonly number[];
  /** Number of classes of the input, or undefined for numbers from 0 to 1. */
  readonly symbols?: number;
  readonly layers: (inputShape: number[]) => tfjs.layers.Layer[];
}

const MODELS: Readonly<Record<string, Model>> = {
  'dense layers with regularizers': {
    inputShape: [7],
    layers: (inputShape) => [
      layers.dense({ units: 6, activation: 'relu', kernelRegularizer: 'l1l2', inputShape }),
      layers.dense({ units: 5, activation: 'tanh', biasRegularizer: tf.regularizers.l2({ l2: 0.1 }) }),
      layers.dense({ units: 5, activation: 'sigmoid' }),
    ],
  },
  activations: {
    inputShape: [7],
    layers: (inputShape) => [
      layers.dense({ units: 6, activation: 'elu', inputShape }),
      layers.dense({ units: 6, activation: 'selu' }),
      layers.dense({ units: 6, activation: 'softplus' }),
      layers.dense({ units: 6, activation: 'softsign' }),
      layers.dense({ units: 6, activation: 'relu6' }),
      layers.dense({ units: 6, activation: 'hardSigmoid' }),
      layers.leakyReLU(),
      layers.prelu(),
      layers.softmax(),
    ],
  },
  convolutions: {
    inputShape: [8, 8, 2],
    layers: (inputShape) => [
      layers.zeroPadding2d({ padding: 1, inputShape }),
      layers.conv2d({ filters: 3, kernelSize: 3, activation: 'relu', strides: 2 }),
      layers.depthwiseConv2d({ kernelSize: 2 }),
      layers.separableConv2d({ filters: 4, kernelSize: 2 }),
      layers.conv2dTranspose({ filters: 2, kernelSize: 3 }),
      layers.upSampling2d({}),
      layers.maxPooling2d({ poolSize: 2 }),
      layers.averagePooling2d({ poolSize: 2 }),
      layers.flatten(),
    ],
  },
  'normalisation and dropout': {
    inputShape: [6, 6, 2],
    layers: (inputShape) => [
      layers.conv2d({ filters: 3, kernelSize: 3, inputShape }),
      layers.batchNormalization(),
      layers.layerNormalization(),
      layers.globalAveragePooling2d({}),
      layers.dense({ units: 9 }),
      layers.batchNormalization({ momentum: 0.5 }),
      layers.dropout({ rate: 0.4 }),
      layers.alphaDropout({ rate: 0.2 }),
    ],
  },
  'recurrent layers': {
    inputShape: [5, 3],
    layers: (inputShape) => [
      layers.lstm({ units: 4, returnSequences: true, dropout: 0.3, recurrentDropout: 0.2, inputShape }),
      layers.gru({ units: 4, returnSequences: true }),
      layers.timeDistributed({ layer: layers.dense({ units: 3 }) }),
      layers.bidirectional({ layer: layers.simpleRNN({ units: 3 }) as tfjs.RNN }),
    ],
  },
  'an embedding': {
    inputShape: [5],
    symbols: 9,
    layers: ([length]) => [
      layers.embedding({ inputDim: 9, outputDim: 4, inputLength: length as number }),
      layers.conv1d({ filters: 3, kernelSize: 2 }),
      layers.globalMaxPooling1d(),
    ],
  },
};

function compiled(
  hidden: readonly tfjs.layers.Layer[],
  loss: string | ((y: tfjs.Tensor, p: tfjs.Tensor) => tfjs.Tensor),
): tfjs.LayersModel {
  const model = tf.sequential({ layers: [...hidden, layers.dense({ units: CLASSES, activation: 'softmax' })] });
  model.compile({ optimizer: 'sgd', loss: loss as string, metrics: ['accuracy', tf.metrics.categoricalCrossentropy] });
  return model;
}

/** Computes a step with the given batch, weight and source of random numbers, compiled or with separate operations. */
class Steps {
  readonly compiled: CompiledStep;
  readonly #inspected: ReturnType<typeof inspectModel>;
  /** The shapes of the batches that have been compiled. */
  readonly #shapes = new Set<string>();

  constructor(model: tfjs.LayersModel, isWanted: boolean | null = null) {
    this.#inspected = inspectModel(tf, model);
    this.compiled = new CompiledStep(tf, this.#inspected, isWanted);
  }

  take(x: tfjs.Tensor, seed: number, isCompiled: boolean, weights: tfjs.Tensor | null = null): number[] {
    const { lossOf, trainable, moving } = this.#inspected;
    const y = tf.tidy(() =>
      tf
        .oneHot(
          tf
            .range(0, x.shape[0] as number, 1, 'int32')
            .mod(tf.scalar(CLASSES, 'int32'))
            .toInt(),
          CLASSES,
        )
        .toFloat(),
    );
    const random = createRandom(seed);
    let batches = 0;
    const batch = () => {
      batches++;
      return { x: [x.clone()], y: [y.clone()], weights: [weights === null ? null : weights.clone()] };
    };
    const part = isCompiled
      ? { weight: 0.75, gradients: (of: readonly tfjs.Variable[], weight: number) => this.compiled.run(of, { batch, weight, random }) }
      : separatePart(tf, () => withRandom(random, () => lossOf([x.clone()], [y.clone()], [weights])), 0.75);
    const before = moving.map((variable) => variable.clone());
    let operations = 0;
    const counter = { onOperation: () => operations++, onRead: () => {} };
    const { gradients, values } = native.observe(counter, () => localGradients(tf, trainable, [part]));
    const key = `${x.shape} ${weights !== null}`;
    // Only the first batch of a shape is computed with separate operations, too.
    equal([operations > 0, this.compiled.reason], [!isCompiled || !this.#shapes.has(key), null]);
    if (isCompiled) {
      this.#shapes.add(key);
      // Creating a batch may have side effects.
      equal(batches, 1);
    }
    const all = [
      ...values.read(),
      ...trainable.flatMap(({ name }) => [...(gradients?.[name]?.dataSync() ?? [])]),
      ...moving.flatMap((variable) => [...variable.dataSync()]),
    ];
    moving.forEach((variable, index) => {
      variable.assign(before[index] as tfjs.Tensor);
    });
    tf.dispose([gradients ?? [], before, y]);
    return all;
  }

  dispose(): void {
    this.compiled.dispose();
  }
}

function inputOf({ inputShape, symbols }: Model, examples: number, seed: number): tfjs.Tensor {
  const shape = [examples, ...inputShape];
  return symbols === undefined ? tf.randomUniform(shape, 0, 1, 'float32', seed) : tf.randomUniform(shape, 0, symbols, 'int32', seed);
}

function requireNear(actual: readonly number[], expected: readonly number[]): void {
  equal(actual.length, expected.length);
  expected.forEach((value, index) => {
    if (!(Math.abs((actual[index] as number) - value) <= 1e-5 * (1 + Math.abs(value)))) {
      throw new Error(`value ${index} is ${actual[index]} instead of ${value}`);
    }
  });
}

for (const [name, kind] of Object.entries(MODELS)) {
  await holds(`${name}: losses, metrics, gradients and moving averages are those of separate operations`, () => {
    const steps = new Steps(compiled(kind.layers([...kind.inputShape]), 'categoricalCrossentropy'));
    const weights = tf.tensor1d([1, 2, 0, 1, 0.5, 3]);
    let tensors = 0;
    // The graph of the first batch computes the next ones, which have other values, random numbers and sizes.
    for (const [seed, examples] of [
      [1, EXAMPLES],
      [2, EXAMPLES],
      [3, EXAMPLES - 2],
      [4, EXAMPLES],
      [5, EXAMPLES - 2],
    ] as const) {
      const x = inputOf(kind, examples, seed);
      const ofExamples = examples === EXAMPLES ? weights : null;
      requireNear(steps.take(x, seed, true, ofExamples), steps.take(x, seed, false, ofExamples));
      x.dispose();
      // The first two shapes create the variables' tensors.
      tensors = seed === 3 ? tf.memory().numTensors : tensors;
    }
    equal(tf.memory().numTensors, tensors);
    steps.dispose();
  });
}

await holds('a graph follows the weights', () => {
  const kind = MODELS['dense layers with regularizers'] as Model;
  const model = compiled(kind.layers([...kind.inputShape]), 'categoricalCrossentropy');
  const steps = new Steps(model);
  const x = inputOf(kind, EXAMPLES, 1);
  steps.take(x, 1, true);
  model.setWeights(model.getWeights().map((weight) => tf.add(weight, 0.25)));
  requireNear(steps.take(x, 1, true), steps.take(x, 1, false));
  steps.dispose();
});

await holds('the same step returns the same bits in another graph, as after a restart', () => {
  const kind = MODELS['normalisation and dropout'] as Model;
  const model = compiled(kind.layers([...kind.inputShape]), 'categoricalCrossentropy');
  const x = inputOf(kind, EXAMPLES, 1);
  const [one, other] = [new Steps(model), new Steps(model)];
  one.take(x, 1, true);
  one.take(x, 2, true);
  equal(one.take(x, 3, true), other.take(x, 3, true));
  one.dispose();
  other.dispose();
});

class Counter extends layers.Layer {
  static className = 'Counter';
  calls = 0;
  override call(inputs: tfjs.Tensor | tfjs.Tensor[]): tfjs.Tensor {
    this.calls++;
    return tf.mul([inputs].flat()[0] as tfjs.Tensor, this.calls);
  }
}

class Doubling extends layers.Layer {
  static className = 'Doubling';
  override call(inputs: tfjs.Tensor | tfjs.Tensor[]): tfjs.Tensor {
    return tf.mul([inputs].flat()[0] as tfjs.Tensor, 2);
  }
}

class Reading extends layers.Layer {
  static className = 'Reading';
  override call(inputs: tfjs.Tensor | tfjs.Tensor[]): tfjs.Tensor {
    const [input] = [inputs].flat() as [tfjs.Tensor];
    return tf.mul(input, (input.dataSync()[0] as number) > 0.5 ? 2 : 3);
  }
}

const dense = () => layers.dense({ units: 3, inputShape: [2] });
const ownLoss = (y: tfjs.Tensor, p: tfjs.Tensor) => tf.losses.meanSquaredError(y, p);

for (const [what, hidden, loss, isWanted, reason] of [
  [
    'a layer of the program',
    [dense(), new Doubling({})],
    'categoricalCrossentropy',
    null,
    /^layer \S+ \(Doubling\) may do something else in each step$/,
  ],
  ['a layer that the program allows', [dense(), new Doubling({})], 'categoricalCrossentropy', true, null],
  ['a counter', [dense(), new Counter({})], 'categoricalCrossentropy', true, /^it does something else in each step/],
  ['a decision by values', [dense(), new Reading({})], 'categoricalCrossentropy', true, /^it reads the values of tensors$/],
  [
    'noise of another kind',
    [dense(), layers.gaussianNoise({ stddev: 1 })],
    'categoricalCrossentropy',
    true,
    /^it does something else in each step/,
  ],
  ['a loss of the program', [dense()], ownLoss, null, /^the loss is a function of the program$/],
  ['a loss that the program allows', [dense()], ownLoss, true, null],
  ['a program that wants separate operations', [dense()], 'categoricalCrossentropy', false, /^the option compile is false$/],
] as const) {
  await holds(`the reason for ${what}`, () => {
    const model = compiled([...hidden], loss);
    const inspected = inspectModel(tf, model);
    const step = new CompiledStep(tf, inspected, isWanted);
    const tensors = tf.memory().numTensors;
    const result = step.run(inspected.trainable, {
      batch: () => ({ x: [tf.ones([4, 2])], y: [tf.oneHot(tf.tensor1d([0, 1, 2, 3], 'int32'), CLASSES).toFloat()], weights: [null] }),
      weight: 1,
      random: createRandom(1),
    });
    if (reason === null ? step.reason !== null : !reason.test(step.reason ?? '')) {
      throw new Error(`the reason is ${step.reason}`);
    }
    tf.dispose([result.loss, [...result.metrics], result.gradients]);
    step.dispose();
    equal(tf.memory().numTensors, tensors);
  });
}
console.log('done');
