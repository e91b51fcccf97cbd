import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { afterEach, describe, expect, test } from 'vitest';
import { folder as newFolder } from '../../contract/testing/folder.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { exportGraphModel, loadGraphModel } from './graph-model.ts';
import { exportLayersModel, loadLayersModel } from './layers-model.ts';
import { checkIntegers, exportSavedModel, loadSavedModel } from './saved-model.ts';

afterEach(() => {
  tf.disposeVariables();
});

async function place(): Promise<{ folder: string; uri: string }> {
  const folder = join(await newFolder(), 'a model');
  return { folder, uri: fileUri(folder) };
}

const world = { tf, storage: new FileStorage() };
const { layers } = tf;

/** Replaces the initial weights. With zeros and ones, a missing weight could remain undetected. */
function withRandomWeights(model: tf.LayersModel): tf.LayersModel {
  const weights = model.getWeights().map((weight, index) => tf.tidy(() => tf.randomUniform(weight.shape, 0.1, 0.9, 'float32', index + 1)));
  model.setWeights(weights);
  tf.dispose(weights);
  return model;
}

function sequential(...parts: tf.layers.Layer[]): tf.LayersModel {
  return withRandomWeights(tf.sequential({ layers: parts }));
}

const image = { inputShape: [8, 8, 3] };

const MODELS: Readonly<Record<string, () => tf.LayersModel>> = {
  'a perceptron with softmax': () =>
    sequential(
      layers.dense({ units: 8, inputShape: [5], activation: 'relu' }),
      layers.dropout({ rate: 0.5 }),
      layers.dense({ units: 3, activation: 'softmax' }),
    ),
  'convolutions, batch normalisation, pooling': () =>
    sequential(
      layers.conv2d({ filters: 4, kernelSize: 3, padding: 'same', activation: 'relu', ...image }),
      layers.batchNormalization(),
      layers.maxPooling2d({ poolSize: 2 }),
      layers.conv2d({ filters: 4, kernelSize: 3, strides: 2, useBias: false }),
      layers.activation({ activation: 'elu' }),
      layers.averagePooling2d({ poolSize: 1 }),
      layers.flatten(),
      layers.dense({ units: 2, activation: 'sigmoid' }),
    ),
  'depthwise, separable, transposed and padded convolutions': () =>
    sequential(
      layers.zeroPadding2d({ padding: 1, ...image }),
      layers.depthwiseConv2d({ kernelSize: 3, activation: 'relu6' }),
      layers.separableConv2d({ filters: 4, kernelSize: 3 }),
      layers.conv2dTranspose({ filters: 2, kernelSize: 3, strides: 2, padding: 'same' }),
      layers.upSampling2d({ size: [2, 2] }),
      layers.cropping2D({ cropping: 1 }),
      layers.globalAveragePooling2d({}),
    ),
  'sequences: conv1d, permute, repeat, global pooling': () =>
    sequential(
      layers.conv1d({ filters: 3, kernelSize: 2, inputShape: [6, 2], activation: 'tanh' }),
      layers.maxPooling1d({ poolSize: 2, strides: 1 }),
      layers.permute({ dims: [2, 1] }),
      layers.globalMaxPooling1d(),
      layers.repeatVector({ n: 3 }),
      layers.timeDistributed({ layer: layers.dense({ units: 2 }) }),
      layers.reshape({ targetShape: [6] }),
      layers.layerNormalization(),
      layers.leakyReLU(),
    ),
  volumes: () =>
    sequential(
      layers.conv3d({ filters: 2, kernelSize: 2, inputShape: [4, 4, 4, 1] }),
      layers.maxPooling3d({ poolSize: 2, strides: 1 }),
      layers.flatten(),
      layers.dense({ units: 2 }),
    ),
  'an embedding and an LSTM': () =>
    sequential(
      layers.embedding({ inputDim: 11, outputDim: 4, inputLength: 5 }),
      layers.lstm({ units: 3, returnSequences: true }),
      layers.gru({ units: 3 }),
      layers.dense({ units: 1 }),
    ),
  'a bidirectional recurrent layer': () =>
    sequential(
      layers.bidirectional({ layer: layers.simpleRNN({ units: 3, returnSequences: true }) as never, inputShape: [4, 2] } as never),
    ),
  activations: () =>
    sequential(
      ...['selu', 'softplus', 'softsign', 'hardSigmoid', 'swish', 'mish', 'tanh', 'linear'].map((activation, index) =>
        layers.dense({ units: 4, activation: activation as 'selu', ...(index === 0 ? { inputShape: [4] } : {}) }),
      ),
      layers.prelu({}),
      layers.thresholdedReLU({ theta: 0.1 }),
    ),
  'several inputs and outputs': () => {
    const one = tf.input({ shape: [4], name: 'one' });
    const other = tf.input({ shape: [4], name: 'other' });
    const dense = layers.dense({ units: 4 });
    const [a, b] = [dense.apply(one), dense.apply(other)] as tf.SymbolicTensor[];
    const merged = [layers.add(), layers.multiply(), layers.average(), layers.maximum(), layers.minimum(), layers.concatenate()].map(
      (layer) => layer.apply([a, b] as tf.SymbolicTensor[]) as tf.SymbolicTensor,
    );
    const all = layers.concatenate().apply(merged) as tf.SymbolicTensor;
    const dot = layers.dot({ axes: -1 }).apply([a, b] as tf.SymbolicTensor[]) as tf.SymbolicTensor;
    return withRandomWeights(tf.model({ inputs: [one, other], outputs: [all, dot] }));
  },
  'a model within a model': () => {
    const inner = tf.sequential({ layers: [layers.dense({ units: 3, inputShape: [4], activation: 'relu' })] });
    return sequential(layers.inputLayer({ inputShape: [4] }), inner as unknown as tf.layers.Layer, layers.dense({ units: 2 }));
  },
  'a fixed number of examples': () => sequential(layers.dense({ units: 2, batchInputShape: [4, 3] })),
};

describe('a GraphModel', () => {
  test.each(Object.keys(MODELS))('a GraphModel computes the same as its LayersModel for any number of examples: %s', async (name) => {
    const model = (MODELS[name] as () => tf.LayersModel)();
    const { uri } = await place();
    const before = tf.memory().numTensors;
    await exportGraphModel(world, model, uri);
    expect(tf.memory().numTensors).toBe(before);
    const graph = await loadGraphModel(world, uri);
    for (const examples of [1, 2, 9]) {
      const inputs = model.inputs.map(({ shape }) => {
        const fixed = [shape[0] ?? examples, ...shape.slice(1)] as number[];
        return name.includes('embedding')
          ? tf.randomUniform(fixed, 0, 11, 'int32', 17).toFloat()
          : tf.randomNormal(fixed, 0, 1, 'float32', 17);
      });
      const expected = [model.apply(inputs, { training: false })].flat() as tf.Tensor[];
      const computed = [graph.predict(inputs)].flat() as tf.Tensor[];
      expect(computed.map(({ shape }) => shape)).toEqual(expected.map(({ shape }) => shape));
      expected.forEach((tensor, index) => {
        const other = computed[index]?.dataSync() as Float32Array;
        tensor.dataSync().forEach((value, at) => {
          expect(other[at]).toBeCloseTo(value, 4);
        });
      });
    }
    graph.dispose();
  });

  test('a GraphModel leaves the methods of the exported layers unchanged, including those that training has replaced', async () => {
    const { uri } = await place();
    const model = sequential(tf.layers.dense({ units: 2, inputShape: [3] }), tf.layers.batchNormalization());
    const layer = model.layers[1] as tf.layers.Layer;
    const own = layer.call;
    const patched: typeof own = (...input) => own.apply(layer, input);
    layer.call = patched;
    await exportGraphModel(world, model, uri);
    expect(layer.call).toBe(patched);
    expect(Object.hasOwn(model.layers[0] as tf.layers.Layer, 'call')).toBe(false);
  });

  test('a GraphModel accepts its inputs by name and describes their shapes', async () => {
    const { uri } = await place();
    await exportGraphModel(world, (MODELS['several inputs and outputs'] as () => tf.LayersModel)(), uri);
    const graph = await loadGraphModel(world, `${uri}/model.json`);
    expect(graph.inputs.map(({ name, shape, dtype }) => ({ name, shape, dtype }))).toEqual([
      { name: 'one', shape: [-1, 4], dtype: 'float32' },
      { name: 'other', shape: [-1, 4], dtype: 'float32' },
    ]);
    const [a, b] = [tf.ones([2, 4]), tf.zeros([2, 4])];
    const byName = graph.predict({ other: b, one: a }) as tf.Tensor[];
    const inOrder = graph.predict([a, b]) as tf.Tensor[];
    expect(byName.map((tensor) => tensor.arraySync())).toEqual(inOrder.map((tensor) => tensor.arraySync()));
  });

  test('a GraphModel cannot be exported from layers that branch on values or use unknown kernels; the error names the layer', async () => {
    class Peeking extends layers.Layer {
      static className = 'Peeking';
      override call(inputs: tf.Tensor | tf.Tensor[]): tf.Tensor {
        const [x] = [inputs].flat() as [tf.Tensor];
        return (x.dataSync()[0] as number) > 0 ? x : tf.neg(x);
      }
    }
    class Transforming extends layers.Layer {
      static className = 'Transforming';
      override call(inputs: tf.Tensor | tf.Tensor[]): tf.Tensor {
        const [x] = [inputs].flat() as [tf.Tensor];
        return tf.real(tf.spectral.fft(tf.complex(x, tf.zerosLike(x))));
      }
    }
    const before = Object.getOwnPropertyNames(tf.engine());
    const { uri, folder } = await place();
    for (const [layer, message] of [
      [new Peeking({ name: 'peeking', inputShape: [4] } as never), /layer peeking branches on values/],
      [
        new Transforming({ name: 'transforming', inputShape: [4] } as never),
        /layer transforming cannot be part of a GraphModel: kernel \w+/,
      ],
    ] as const) {
      const error = await exportGraphModel(world, tf.sequential({ layers: [layer] }), uri).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'MODEL_UNSUPPORTED', message: expect.stringMatching(message) });
    }
    const free = tf.sequential({ layers: [layers.conv1d({ filters: 1, kernelSize: 1, inputShape: [null, 2] })] });
    await expect(exportGraphModel(world, free, uri)).rejects.toThrow(/only the first dimension may be variable/);
    expect(Object.getOwnPropertyNames(tf.engine())).toEqual(before);
    await expect(readdir(folder)).rejects.toThrow();
  });
});

function bytesOf(model: tf.LayersModel): Buffer {
  return Buffer.concat(model.getWeights().map((weight) => new Uint8Array(weight.dataSync().slice().buffer)));
}

describe('a SavedModel', () => {
  test.each([
    ['DT_INT64', [0, 7, 2 ** 24], null],
    ['DT_INT64', [3, -1], -1],
    ['DT_INT64', [2 ** 31], 2 ** 31],
    ['DT_INT64', [0.5], 0.5],
    ['DT_UINT8', [0, 255], null],
    ['DT_UINT8', [300], 300],
    ['DT_INT32', [-5], null],
    [undefined, [-0.5], null],
  ])('an input of type %s takes %j only if the value stays the same', (tfDtype, values, wrong) => {
    const check = () => checkIntegers('ids', tfDtype, tf.tensor1d(values));
    if (wrong === null) {
      expect(check).not.toThrow();
    } else {
      expect(check).toThrow(`cannot take the value ${wrong}`);
    }
  });

  test('an export replaces no SavedModel with variables, and a SavedModel runs only on the native backend', async () => {
    const { uri, folder } = await place();
    const model = sequential(layers.dense({ units: 2, inputShape: [3] }));
    await exportSavedModel(world, model, uri);
    await exportSavedModel(world, model, uri);
    expect(await readdir(folder)).toEqual(['saved_model.pb']);
    await world.storage.write(`${uri}/variables/variables.index`, Buffer.of(0));
    await expect(exportSavedModel(world, model, uri)).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
    await expect(loadSavedModel(world, uri)).rejects.toMatchObject({ code: 'BACKEND_UNSUPPORTED' });
  });
});

describe('a LayersModel', () => {
  test('a LayersModel loads with its weights; a new export replaces the previous one', async () => {
    const { uri, folder } = await place();
    const [small, large] = [
      sequential(layers.dense({ units: 2, inputShape: [3] })),
      sequential(layers.dense({ units: 1200, inputShape: [1200] })),
    ];
    for (const model of [small, large, small, large]) {
      await exportLayersModel(world, model, uri);
      const loaded = await loadLayersModel(world, uri);
      expect(bytesOf(loaded).equals(bytesOf(model))).toBe(true);
    }
    const { weightsManifest } = JSON.parse(await readFile(join(folder, 'model.json'), 'utf8')) as {
      weightsManifest: { paths: string[] }[];
    };
    expect(weightsManifest[0]?.paths).toHaveLength(2);
    expect((await readdir(folder)).sort()).toEqual(
      ['group1-shard1of2', 'group1-shard2of2', 'model.json'].map((start) => expect.stringMatching(start)),
    );
  });

  test('a custom layer with the name of a built-in class is not exported, at any depth', async () => {
    class Dense extends tf.layers.Layer {
      static readonly className = 'Dense';
      override call(inputs: tf.Tensor | tf.Tensor[]): tf.Tensor {
        return tf.neg(Array.isArray(inputs) ? (inputs[0] as tf.Tensor) : inputs);
      }
    }
    const inner = tf.sequential({ layers: [layers.dense({ units: 2, inputShape: [2] }), new Dense({ name: 'own' })] });
    const outer = tf.sequential({ layers: [inner, layers.activation({ activation: 'relu' })] });
    for (const model of [inner, outer]) {
      const { uri } = await place();
      await expect(exportLayersModel(world, model, uri)).rejects.toMatchObject({
        code: 'MODEL_UNSUPPORTED',
        message: 'the class of layer own has the className Dense, which is another class',
      });
      expect(await world.storage.list(uri)).toEqual([]);
    }
  });

  test('a place without model.json is unreadable, and the error says what is there instead', async () => {
    const { uri } = await place();
    await expect(loadLayersModel(world, uri)).rejects.toMatchObject({ code: 'MODEL_UNREADABLE', message: `${uri} contains no model.json` });
    await world.storage.write(`${uri}/saved_model.pb`, Buffer.of(0));
    await expect(loadLayersModel(world, uri)).rejects.toMatchObject({ hint: expect.stringContaining('loadSavedModel') });
    await world.storage.write(`${uri}/m.keras`, Buffer.of(0));
    await expect(loadLayersModel(world, `${uri}/m.keras`)).rejects.toMatchObject({
      code: 'MODEL_UNREADABLE',
      hint: expect.stringContaining('save_tfjs'),
    });
  });

  test('a LayersModel fails to load with MODEL_UNREADABLE if its model.json is invalid or its weights are missing', async () => {
    const { uri, folder } = await place();
    await exportLayersModel(world, sequential(layers.dense({ units: 1, inputShape: [1] })), uri);
    const [weights] = (await readdir(folder)).filter((name) => name.endsWith('.bin'));
    await world.storage.remove(`${uri}/${weights}`);
    await expect(loadLayersModel(world, uri)).rejects.toMatchObject({
      code: 'MODEL_UNREADABLE',
      message: `${uri}/model.json names the file ${weights}, which does not exist`,
    });
    for (const text of ['{', '{"weightsManifest": []}']) {
      await world.storage.write(`${uri}/model.json`, Buffer.from(text));
      await expect(loadLayersModel(world, uri)).rejects.toMatchObject({ code: 'MODEL_UNREADABLE' });
    }
  });
});
