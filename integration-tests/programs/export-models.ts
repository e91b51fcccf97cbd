/**
 * Exports models to a given folder, and loads these models and the models of another process. Reports the largest differences between
 * predictions.
 */
import { join } from 'tony-ts/training';

const [own = '', other] = process.argv.slice(2);
const cluster = await join();
const { tf, models } = cluster;
const { layers } = tf;

const image = tf.sequential({
  layers: [
    layers.conv2d({ filters: 4, kernelSize: 3, activation: 'relu', inputShape: [10, 10, 1], name: 'conv' }),
    layers.batchNormalization({ name: 'norm' }),
    layers.maxPooling2d({ poolSize: 2, name: 'pool' }),
    layers.flatten({ name: 'flat' }),
    layers.dense({ units: 3, activation: 'softmax', name: 'classes' }),
  ],
});
const text = tf.sequential({
  layers: [
    layers.embedding({ inputDim: 20, outputDim: 4, inputLength: 6, name: 'words' }),
    layers.lstm({ units: 5, name: 'lstm' }),
    layers.dense({ units: 1, name: 'score' }),
  ],
});
if (cluster.backend === 'native') {
  image.compile({ optimizer: 'adam', loss: 'categoricalCrossentropy' });
  await image.trainOnBatch(tf.randomNormal([8, 10, 10, 1]), tf.oneHot(tf.zeros([8], 'int32'), 3).toFloat());
}

const inputs = {
  image: tf.randomNormal([5, 10, 10, 1]),
  text: tf.randomUniform([5, 6], 0, 20, 'int32').toFloat(),
};

function apart(one: unknown, two: unknown): number {
  const [a, b] = [one, two].map((tensor) => (tensor as ReturnType<typeof tf.zeros>).dataSync()) as [Float32Array, Float32Array];
  return a.length === b.length ? Math.max(...a.map((value, index) => Math.abs(value - (b[index] as number)))) : Number.NaN;
}

const before = tf.memory().numTensors;
for (const [name, model] of Object.entries({ image, text })) {
  await models.exportLayersModel(model, `${own}/${name}/layers`);
  await models.exportGraphModel(model, `${own}/${name}/graph`);
  await models.exportSavedModel(model, `${own}/${name}/saved`);
}
const leaked = tf.memory().numTensors - before;
const places = other === undefined ? [own] : [own, other];
const differences: Record<string, number> = {};
for (const place of places) {
  for (const name of ['image', 'text'] as const) {
    const [layersModel, graph] = [
      await models.loadLayersModel(`${place}/${name}/layers`),
      await models.loadGraphModel(`${place}/${name}/graph`),
    ];
    const found = layersModel.predict(inputs[name]);
    const whose = place === own ? 'own' : 'other';
    differences[`${whose} ${name}`] = apart(found, graph.predict(inputs[name]));
    if (cluster.backend === 'native') {
      const saved = await models.loadSavedModel(`${place}/${name}/saved`);
      differences[`${whose} ${name} saved`] = apart(found, saved.predict(inputs[name]));
      saved.dispose();
    }
  }
}
const { taken, left } = await models.warmStart(image, `${places.at(-1)}/image/graph`);
console.log(JSON.stringify({ backend: cluster.backend, leaked, differences, taken: taken.length, left }));
await cluster.close();
