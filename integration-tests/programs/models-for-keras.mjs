/**
 * `export FOLDER`: exports models with random weights, with inputs and predictions in NAME.json, as layers models and SavedModels.
 * `check FOLDER`: loads the models that a Python program has exported, and prints the largest difference between their predictions and
 * those in NAME.json. `check-saved FOLDER`: the same for the SavedModels in NAME-saved.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'tony-ts/training';

/**
 * @import { LayersModel, NamedTensorMap, SymbolicTensor, Tensor } from '@tensorflow/tfjs'
 * @import { SavedModel } from 'tony-ts/training'
 */

const [action, folder = ''] = process.argv.slice(2);
const cluster = await join();
const { tf, models } = cluster;
const { layers } = tf;

const image = tf.sequential({
  name: 'image',
  layers: [
    layers.conv2d({ filters: 4, kernelSize: 3, strides: 2, padding: 'same', activation: 'relu', inputShape: [10, 10, 2] }),
    layers.batchNormalization(),
    layers.separableConv2d({ filters: 6, kernelSize: 2 }),
    layers.depthwiseConv2d({ kernelSize: 2, kernelInitializer: 'varianceScaling' }),
    layers.maxPooling2d({ poolSize: 2 }),
    layers.flatten(),
    layers.dropout({ rate: 0.3 }),
    layers.dense({ units: 3, activation: 'softmax', kernelRegularizer: 'l1l2' }),
  ],
});
const text = tf.sequential({
  name: 'text',
  layers: [
    layers.embedding({ inputDim: 20, outputDim: 4, inputLength: 6 }),
    layers.bidirectional({ layer: layers.lstm({ units: 5, returnSequences: true }), mergeMode: 'concat' }),
    layers.gru({ units: 4, returnSequences: true }),
    layers.timeDistributed({ layer: layers.dense({ units: 3 }) }),
    layers.simpleRNN({ units: 2 }),
    layers.dense({ units: 1 }),
  ],
});

function two() {
  const [left, right] = [tf.input({ shape: [4], name: 'left' }), tf.input({ shape: [4], name: 'right' })];
  const shared = tf.sequential({ name: 'shared', layers: [layers.dense({ units: 5, activation: 'elu', inputShape: [4] })] });
  /** @param {{ apply(inputs: any): unknown }} layer @param {SymbolicTensor | SymbolicTensor[]} inputs */
  const call = (layer, inputs) => /** @type {SymbolicTensor} */ (layer.apply(inputs));
  const sum = call(layers.add(), [call(shared, left), call(shared, right)]);
  const joined = call(layers.concatenate(), [sum, call(layers.leakyReLU({ alpha: 0.2 }), left)]);
  const outputs = [call(layers.dense({ units: 2 }), joined), call(layers.layerNormalization(), call(layers.prelu(), joined))];
  return tf.model({ inputs: [left, right], outputs, name: 'two' });
}

/** @param {LayersModel | SavedModel} model @param {Tensor[]} inputs */
function predict(model, inputs) {
  /** @type {Tensor | Tensor[] | NamedTensorMap} */
  const outputs = model.predict(/** @type {Tensor} */ (inputs.length === 1 ? inputs[0] : inputs));
  const list = outputs instanceof tf.Tensor || Array.isArray(outputs) ? [outputs].flat() : Object.values(outputs);
  return list.map((each) => [...each.dataSync()]);
}

/** Trains three steps on fixed data, like `train` in keras-models.py. @param {LayersModel} model */
async function train(model) {
  const wave = tf.tensor(
    Array.from({ length: 48 }, (_, index) => Math.cos(index)),
    [16, 3],
  );
  for (let step = 0; step < 3; step++) {
    await model.trainOnBatch(wave.slice([0, 0], [16, 2]), wave.slice([0, 2], [16, 1]));
  }
}

const optimizers = { adam: () => tf.train.adam(0.01), momentum: () => tf.train.momentum(0.05, 0.9) };

if (action === 'export') {
  const pictures = tf.randomNormal([5, 10, 10, 2]);
  const words = tf.randomUniform([5, 6], 0, 20, 'int32').toFloat();
  /** @type {[LayersModel, Tensor[]][]} */
  const cases = [
    [image, [pictures]],
    [text, [words]],
    [two(), [tf.randomNormal([5, 4]), tf.randomNormal([5, 4])]],
  ];
  for (const [model, inputs] of cases) {
    const random = model.weights.map(({ name, shape }) => {
      return tf.randomUniform(/** @type {number[]} */ (shape), name.includes('variance') ? 0.1 : -0.7, 0.7);
    });
    model.setWeights(random);
    await models.exportLayersModel(model, `${folder}/${model.name}`);
    await models.exportSavedModel(model, `${folder}/${model.name}-saved`);
    const written = inputs.map((each) => ({ shape: each.shape, data: Array.from(each.dataSync()) }));
    writeFileSync(`${folder}/${model.name}.json`, JSON.stringify({ inputs: written, outputs: predict(model, inputs) }));
  }
  for (const [name, optimizer] of Object.entries(optimizers)) {
    // Fixed weights, because the effect of Adam's epsilon depends on how small the gradients are.
    const kernelInitializer = tf.initializers.glorotUniform({ seed: 1 });
    const [first, last] = [layers.batchNormalization({ inputShape: [2] }), layers.dense({ units: 1, kernelInitializer })];
    const model = tf.sequential({ layers: [first, layers.dense({ units: 4, activation: 'tanh', kernelInitializer }), last] });
    model.compile({ optimizer: optimizer(), loss: 'meanSquaredError' });
    await models.exportLayersModel(model, `${folder}/${name}-0`);
    await train(model);
    await models.exportLayersModel(model, `${folder}/${name}-3`, { includeOptimizer: true });
  }
} else {
  /** @type {Record<string, number>} */
  const differences = {};
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
    const name = file.slice(0, -'.json'.length);
    /** @type {{ inputs: { shape: number[], data: number[] }[], outputs: number[][] }} */
    const { inputs, outputs } = JSON.parse(readFileSync(`${folder}/${file}`, 'utf8'));
    const place = `${folder}/${name}`;
    const model = await (action === 'check' ? models.loadLayersModel(place) : models.loadSavedModel(`${place}-saved`));
    const own = predict(
      model,
      inputs.map(({ shape, data }) => tf.tensor(data, shape)),
    );
    const expected = outputs.flat();
    const found = own.flat();
    const difference = Math.max(...found.map((value, at) => Math.abs(value - (expected[at] ?? Number.NaN))));
    differences[name] = found.length === expected.length ? difference : Number.NaN;
  }
  for (const name of action === 'check' ? Object.keys(optimizers) : []) {
    const model = await models.loadLayersModel(`${folder}/${name}-6`);
    await train(model);
    /** @type {number[]} */
    const expected = JSON.parse(readFileSync(`${folder}/${name}-6/weights-9`, 'utf8'));
    const found = model.trainableWeights.flatMap((weight) => [...weight.read().dataSync()]);
    const difference = Math.max(...found.map((value, at) => Math.abs(value - (expected[at] ?? Number.NaN))));
    differences[name] = found.length === expected.length ? difference : Number.NaN;
  }
  console.log(JSON.stringify(differences));
}
await cluster.close();
