import type { Cluster } from 'tony-ts/training';

export async function train(cluster: Cluster, { rate, epochs }: { rate: number; epochs: number }) {
  const { tf } = cluster;
  const model = tf.sequential();
  model.add(tf.layers.rescaling({ inputShape: [28, 28], scale: 1 / 255 }));
  model.add(tf.layers.flatten());
  model.add(tf.layers.dense({ units: 32, activation: 'relu' }));
  model.add(tf.layers.dense({ units: 10, activation: 'softmax' }));
  model.compile({ optimizer: tf.train.adam(rate), loss: 'sparseCategoricalCrossentropy', metrics: ['accuracy'] });

  const x = await cluster.idx('mnist', 'train-images-idx3-ubyte');
  const y = await cluster.idx('mnist', 'train-labels-idx1-ubyte');
  const { steps } = await cluster.fit(model, { x, y }, { epochs, batchSize: 64 });

  const images = await cluster.idx('mnist', 't10k-images-idx3-ubyte');
  const labels = await cluster.idx('mnist', 't10k-labels-idx1-ubyte');
  const accuracy = tf.tidy(() => {
    const scores = model.predict(tf.tensor3d(Float32Array.from(images.values), [10_000, 28, 28]), { batchSize: 500 }) as ReturnType<
      typeof tf.tensor2d
    >;
    const digits = scores.argMax(1).dataSync();
    return digits.filter((digit, index) => digit === labels.values[index]).length / digits.length;
  });
  return { accuracy, steps };
}
