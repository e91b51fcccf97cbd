// Runs on the runtime's Node.js, which has the native backend. For each property, prints `NAME ok` or `NAME: the error`. Finally prints
// `done`.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type * as tfjs from '@tensorflow/tfjs';
import { CheckpointStore } from '../../../../contract/checkpoint/checkpoint-store.ts';
import { FileStorage } from '../../../../storage/file-storage.ts';
import { fileUri } from '../../../../storage/uri.ts';
import { Phases } from '../../../checkpoint/phases.ts';
import type { TrainingData } from '../../../data/data.ts';
import { fit as fitModel } from '../../../fit/fit.ts';
import type { FitOptions } from '../../../fit/fit-options.ts';
import { inspectModel } from '../../../model/compiled-model.ts';
import { captureState } from '../../../model/training-state.ts';
import { allReduceStrategy } from '../../../strategy/all-reduce/all-reduce-strategy.ts';
import { joinRing } from '../../../testing/join-ring.ts';
import { loadBackend } from '../../backend.ts';
import { installNativeKernels, uninstallNativeKernels } from '../native-kernels.ts';
import { equal, holds } from './properties.ts';

const { tf } = await loadBackend(1, process.env);

type MakeModel = (optimizer: tfjs.Optimizer) => tfjs.LayersModel;

const seeded = (seed: number) => tf.initializers.glorotUniform({ seed });

/** Models that together use every native gradient. Their initial weights are the same in every run. */
const MODELS: Readonly<Record<string, MakeModel>> = {
  'dense layers': (optimizer) => {
    const kernelRegularizer = tf.regularizers.l2({ l2: 0.01 });
    return compiled(optimizer, [
      tf.layers.dense({ units: 9, activation: 'relu', inputShape: [6, 6, 2], kernelInitializer: seeded(1), kernelRegularizer }),
      tf.layers.flatten(),
      tf.layers.dense({ units: 7, activation: 'tanh', kernelInitializer: seeded(2) }),
      tf.layers.dropout({ rate: 0.3 }),
      tf.layers.dense({ units: 5, activation: 'sigmoid', kernelInitializer: seeded(3) }),
      tf.layers.dense({ units: 3, activation: 'softmax', kernelInitializer: seeded(4) }),
    ]);
  },
  'convolutions with batch normalisation': (optimizer) =>
    compiled(optimizer, [
      // A bias before normalisation has no effect, so its gradient would consist only of rounding errors, which adam amplifies.
      tf.layers.conv2d({ filters: 4, kernelSize: 3, padding: 'same', useBias: false, inputShape: [6, 6, 2], kernelInitializer: seeded(1) }),
      tf.layers.batchNormalization(),
      tf.layers.activation({ activation: 'relu' }),
      tf.layers.maxPooling2d({ poolSize: 2 }),
      tf.layers.separableConv2d({ filters: 5, kernelSize: 2, depthwiseInitializer: seeded(2), pointwiseInitializer: seeded(3) }),
      tf.layers.layerNormalization(),
      tf.layers.globalAveragePooling2d({}),
      tf.layers.dense({ units: 3, activation: 'softmax', kernelInitializer: seeded(4) }),
    ]),
  'an LSTM': (optimizer) =>
    compiled(optimizer, [
      tf.layers.reshape({ targetShape: [6, 12], inputShape: [6, 6, 2] }),
      tf.layers.lstm({ units: 5, kernelInitializer: seeded(1), recurrentInitializer: seeded(2) }),
      tf.layers.dense({ units: 3, activation: 'softmax', kernelInitializer: seeded(4) }),
    ]),
};

const OPTIMIZERS: Readonly<Record<string, () => tfjs.Optimizer>> = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.02, 0.9),
  adam: () => tf.train.adam(0.003),
  adamax: () => tf.train.adamax(0.003),
  adagrad: () => tf.train.adagrad(0.02),
  adadelta: () => tf.train.adadelta(0.1),
  rmsprop: () => tf.train.rmsprop(0.002, 0.9, 0.5),
};

function compiled(optimizer: tfjs.Optimizer, layers: tfjs.layers.Layer[]): tfjs.LayersModel {
  const model = tf.sequential({ layers });
  model.compile({ optimizer, loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  return model;
}

function makeData(count: number): TrainingData {
  const values = Float32Array.from({ length: count * 72 }, (_, index) => Math.sin(index * 1.7) + Math.cos(index * index));
  const labels = Float32Array.from({ length: count * 3 }, (_, index) => (Math.floor(index / 3) % 3 === index % 3 ? 1 : 0));
  return { x: { values, shape: [count, 6, 6, 2] }, y: { values: labels, shape: [count, 3] } };
}

async function train(models: readonly tfjs.LayersModel[], options: FitOptions, checkpoints: string | null = null): Promise<void> {
  const rings = await joinRing(models.length);
  const storage = new FileStorage();
  const store = checkpoints === null ? null : { store: new CheckpointStore(storage, fileUri(checkpoints)), everySteps: 0, keep: 3 };
  try {
    await Promise.all(
      rings.map((ring, rank) =>
        fitModel(
          {
            tf,
            strategy: allReduceStrategy(ring),
            jobId: 'application_1_0001',
            generation: 1,
            phase: new Phases('application_1_0001').begin('fit'),
            checkpoints: store,
            storage,
            summaries: null,
            report: () => {},
          },
          models[rank] as tfjs.LayersModel,
          makeData(50),
          options,
        ),
      ),
    );
  } finally {
    for (const ring of rings) {
      ring.close();
    }
  }
}

function weightsOf(model: tfjs.LayersModel): number[] {
  return model.getWeights().flatMap((weight) => [...weight.dataSync()]);
}

function close(actual: readonly number[], expected: readonly number[], tolerance: number): void {
  expected.forEach((value, index) => {
    if (!(Math.abs((actual[index] as number) - value) <= tolerance)) {
      throw new Error(`weight ${index} is ${actual[index]} instead of ${value}`);
    }
  });
}

for (const [modelName, makeModel] of Object.entries(MODELS)) {
  for (const [optimizerName, makeOptimizer] of Object.entries(OPTIMIZERS)) {
    // The other models need only two optimizers, because optimizer-properties.ts tests each optimizer.
    if (modelName !== 'dense layers' && !['sgd', 'adam'].includes(optimizerName)) {
      continue;
    }
    await holds(`${modelName} trained with ${optimizerName} get the same weights as with TensorFlow.js's own kernels`, async () => {
      const options = { epochs: 2, batchSize: 8, shuffle: false, seed: 3 };
      uninstallNativeKernels(tf);
      const own = makeModel(makeOptimizer());
      await train([own], options);
      installNativeKernels(tf);
      const native = makeModel(makeOptimizer());
      await train([native], options);
      close(weightsOf(native), weightsOf(own), 2e-4);
      // Without batch normalisation and dropout, two ranks that split every batch get the same result as a single rank.
      if (modelName === 'an LSTM') {
        const both = [makeModel(makeOptimizer()), makeModel(makeOptimizer())];
        await train(both, { ...options, batchSize: 4 });
        equal(weightsOf(both[0] as tfjs.LayersModel), weightsOf(both[1] as tfjs.LayersModel));
        close(weightsOf(both[0] as tfjs.LayersModel), weightsOf(own), 2e-4);
      }
    });
  }
}

for (const [name, makeOptimizer] of Object.entries(OPTIMIZERS)) {
  await holds(`a run with ${name} that resumes from a checkpoint gets exactly the weights of an uninterrupted run`, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'native-fit-'));
    try {
      const makeModel = MODELS['dense layers'] as MakeModel;
      const straight = makeModel(makeOptimizer());
      await train([straight], { epochs: 2, batchSize: 8 });
      await train([makeModel(makeOptimizer())], { epochs: 1, batchSize: 8 }, folder);
      const resumed = makeModel(makeOptimizer());
      await train([resumed], { epochs: 2, batchSize: 8 }, folder);
      equal(weightsOf(resumed), weightsOf(straight));
    } finally {
      await rm(folder, { recursive: true });
    }
  });
  await holds(`the state of ${name} has the same names and types as with TensorFlow.js's own kernels`, async () => {
    const states: string[][] = [];
    for (const change of [uninstallNativeKernels, installNativeKernels]) {
      change(tf);
      const model = (MODELS['dense layers'] as MakeModel)(makeOptimizer());
      await train([model], { epochs: 1, batchSize: 8 });
      const state = await captureState(tf, inspectModel(tf, model));
      // TensorFlow.js numbers all layers in a process consecutively, for example dense_Dense1 and dense_Dense5.
      states.push(state.map(({ name, dtype, shape }) => `${name.replace(/\d+/g, '')} ${dtype} ${shape}`));
    }
    equal(states[0], states[1]);
  });
}

await holds('training leaks no tensors', async () => {
  for (const makeModel of Object.values(MODELS)) {
    const models = [makeModel(tf.train.adam(0.01)), makeModel(tf.train.adam(0.01))];
    await train(models, { epochs: 1, batchSize: 8 });
    const before = tf.memory().numTensors;
    await train(models, { epochs: 3, batchSize: 8 });
    equal(tf.memory().numTensors, before);
  }
});

console.log('done');
