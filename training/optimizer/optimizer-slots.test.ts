import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { folder } from '../../contract/testing/folder.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { exportLayersModel, loadLayersModel } from '../export/layers-model.ts';
import { modelFilesHandler } from '../export/model-files.ts';
import { fitTogether, weightsOf } from '../testing/fit-world.ts';

const storage = new FileStorage();
const data = { x: tf.randomNormal([20, 4], 0, 1, 'float32', 1), y: tf.randomNormal([20, 1], 0, 1, 'float32', 2) };

/** All models have layers of the same names, as in programs that are started again. */
function make(): tf.LayersModel {
  const dense = (name: string, units: number, seed: number, more: object = {}) =>
    tf.layers.dense({ name, units, kernelInitializer: tf.initializers.glorotUniform({ seed }), ...more });
  const model = tf.sequential({ layers: [dense('hidden', 3, 1, { activation: 'tanh', inputShape: [4] }), dense('out', 1, 2)] });
  model.compile({ optimizer: tf.train.adam(0.05), loss: 'meanSquaredError' });
  return model;
}

const train = async (model: tf.LayersModel) => await fitTogether([model], data, { epochs: 2, batchSize: 5, shuffle: false });

test.each([
  ['cluster.models.loadLayersModel', loadLayersModel],
  [
    'tf.loadLayersModel',
    ({ tf: { loadLayersModel: load } }: { readonly tf: typeof tf }, uri: string) => load(modelFilesHandler(tf, storage, uri)),
  ],
])('%s keeps the slots of a model whose names belong to another model', async (_, load) => {
  const uri = fileUri(await folder());
  const original = make();
  await train(original);
  await exportLayersModel({ tf, storage }, original, uri, { includeOptimizer: true });
  const loaded = await load({ tf, storage }, uri);
  await Promise.all([train(original), train(loaded)]);
  const expected = weightsOf(original);
  weightsOf(loaded).forEach((weight, index) => {
    expect(weight).toBeCloseTo(expected[index] as number, 5);
  });
});

test('an export contains only the slots of the exported model, in the order of its weights', async () => {
  const uri = fileUri(await folder());
  const [one, other] = [make(), make()];
  other.compile({ optimizer: one.optimizer, loss: 'meanSquaredError' });
  await train(other);
  await train(one);
  await exportLayersModel({ tf, storage }, one, uri, { includeOptimizer: true });
  const loaded = await loadLayersModel({ tf, storage }, uri);
  const slots = (loaded.optimizer as unknown as { accumulatedFirstMoment: { variable: tf.Variable }[] }).accumulatedFirstMoment;
  expect(slots.map(({ variable }) => variable.shape)).toEqual(loaded.trainableWeights.map(({ shape }) => shape));
});

test.each([
  ['a loss without a name', { loss: (t: tf.Tensor, p: tf.Tensor) => tf.losses.huberLoss(t, p) }, 'the loss is the function'],
  [
    'a metric without a name',
    { loss: 'meanSquaredError', metrics: [(t: tf.Tensor, p: tf.Tensor) => tf.sub(t, p).mean()] },
    'the metric is the function',
  ],
  ['several metrics of an output', { loss: 'meanSquaredError', metrics: { out: ['mae', 'mse'] } }, 'the metrics of output out are a list'],
])('a model with %s is not exported with its optimizer', async (_, args, message) => {
  const uri = fileUri(await folder());
  const model = make();
  model.compile({ optimizer: 'adam', ...(args as { loss: string }) });
  await expect(exportLayersModel({ tf, storage }, model, uri, { includeOptimizer: true })).rejects.toMatchObject({
    code: 'MODEL_UNSUPPORTED',
    message: expect.stringContaining(message),
  });
  expect(await storage.list(uri)).toEqual([]);
});

test('an optimizer with state in private fields is refused before the first step, unless it defines getWeights and setWeights', async () => {
  class Hidden extends tf.Optimizer {
    learningRate = 0.1;
    #steps = 0;
    applyGradients() {
      this.#steps++;
    }
    getConfig() {
      return {};
    }
  }
  const model = make();
  model.compile({ optimizer: new Hidden(), loss: 'meanSquaredError' });
  await expect(fitTogether([model], data, {}, { folder: await folder() })).rejects.toMatchObject({
    code: 'MODEL_INVALID',
    message: 'checkpoints cannot contain the state of the optimizer Hidden: #steps (a private field)',
  });
});

test('an optimizer with variables outside of its properties is refused after the first step', async () => {
  const hidden: tf.Variable[] = [];
  class Outside extends tf.Optimizer {
    applyGradients() {
      hidden.push(tf.variable(tf.zeros([2]), false));
    }
    getConfig() {
      return {};
    }
  }
  const model = make();
  model.compile({ optimizer: new Outside(), loss: 'meanSquaredError' });
  await expect(fitTogether([model], data, {}, { folder: await folder() })).rejects.toMatchObject({ code: 'MODEL_INVALID' });
  expect(hidden).toHaveLength(1);
});
