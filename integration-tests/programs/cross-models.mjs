/**
 * `export`: trains a model for three steps, and writes it to the job's output folder as `tfjs` and `tfjs-saved`, with inputs and predictions
 * in `tfjs.json`. `check`: loads the models that cross-models.py has written, and trains one of them for three more steps. Writes the
 * largest differences from Keras's predictions to `check.json`.
 */
import { join } from 'tony-ts/training';

/** @import { LayersModel, NamedTensorMap, Tensor } from '@tensorflow/tfjs' */

const [action] = process.argv.slice(2);
const cluster = await join();
const { tf, models, storage, outputUri } = cluster;
const { layers } = tf;

/** @param {string} name @param {unknown} value */
const write = (name, value) => storage.write(`${outputUri}/${name}`, Buffer.from(JSON.stringify(value)));
/** @param {string} name */
const read = async (name) => JSON.parse(Buffer.from(await storage.read(`${outputUri}/${name}`)).toString());
/** @param {Tensor | Tensor[] | NamedTensorMap} outputs */
const valuesOf = (outputs) => [.../** @type {Tensor} */ (outputs instanceof tf.Tensor ? outputs : Object.values(outputs)[0]).dataSync()];
/** @param {number[]} own @param {number[]} other */
const apart = (own, other) =>
  own.length === other.length ? Math.max(...own.map((value, at) => Math.abs(value - (other[at] ?? Number.NaN)))) : Number.NaN;

const images = tf.tensor4d(
  Array.from({ length: 6 * 8 * 8 * 2 }, (_, index) => Math.sin(index / 3)),
  [6, 8, 8, 2],
);
const targets = tf.tensor2d(
  Array.from({ length: 6 * 3 }, (_, index) => Math.cos(index)),
  [6, 3],
);

/** Does the same as `train` in cross-models.py. @param {LayersModel} model */
async function train(model) {
  for (let step = 0; step < 3; step++) {
    await model.trainOnBatch(images, targets);
  }
}

if (action === 'export') {
  const kernelInitializer = tf.initializers.glorotUniform({ seed: 1 });
  const model = tf.sequential({
    layers: [
      layers.conv2d({ filters: 4, kernelSize: 3, activation: 'relu', kernelInitializer, inputShape: [8, 8, 2] }),
      layers.batchNormalization(),
      layers.averagePooling2d({ poolSize: 2 }),
      layers.flatten(),
      layers.dense({ units: 5, activation: 'tanh', kernelInitializer }),
      layers.dense({ units: 3, kernelInitializer }),
    ],
  });
  model.compile({ optimizer: tf.train.momentum(0.05, 0.9), loss: 'meanSquaredError' });
  await train(model);
  await models.exportLayersModel(model, 'tfjs', { includeOptimizer: true });
  await models.exportSavedModel(model, 'tfjs-saved');
  const outputs = /** @type {Tensor} */ (model.predict(images));
  await write('tfjs.json', { images: await images.array(), targets: await targets.array(), outputs: await outputs.array() });
} else {
  const { converted, own, trained } = await read('keras.json');
  const model = await models.loadLayersModel(`${outputUri}/keras`);
  const saved = await models.loadSavedModel(`${outputUri}/keras-saved`);
  /** @type {Record<string, number>} */
  const differences = {
    'layers model': apart(valuesOf(/** @type {Tensor} */ (model.predict(images))), converted),
    SavedModel: apart(valuesOf(saved.predict(images)), own),
  };
  await train(model);
  differences['trained layers model'] = apart(valuesOf(/** @type {Tensor} */ (model.predict(images))), trained);
  await write('check.json', { differences });
}
await cluster.close();
