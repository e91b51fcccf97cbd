import type { Cluster, TrainingData } from 'tony-ts/training';

/** The model that the chief, the worker and the evaluator share. */
export function makeModel({ tf }: Cluster) {
  const model = tf.sequential();
  model.add(tf.layers.flatten({ inputShape: [28, 28] }));
  model.add(tf.layers.dense({ units: 128, activation: 'relu' }));
  model.add(tf.layers.dense({ units: 10, activation: 'softmax' }));
  model.compile({ optimizer: tf.train.adam(0.002), loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  return model;
}

/** Returns the first `count` digits of MNIST's training or test set. */
export async function digits(cluster: Cluster, set: 'train' | 't10k', count: number): Promise<TrainingData> {
  const { tf } = cluster;
  const images = await cluster.idx('mnist', `${set}-images-idx3-ubyte`);
  const labels = await cluster.idx('mnist', `${set}-labels-idx1-ubyte`);
  return {
    x: { values: images.values.subarray(0, count * 28 * 28), shape: [count, 28, 28] },
    y: { values: labels.values.subarray(0, count), shape: [count] },
    prepare: ({ x, y }) => ({
      x: x.map((pixels) => tf.div(pixels, 255)),
      y: y.map((digit) => tf.oneHot(tf.cast(digit, 'int32'), 10).toFloat()),
    }),
  };
}
