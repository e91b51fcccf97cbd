/** Trains on the rows of the dataset `rows` with checkpoints, saves the model, and writes a file with the sum of the rows to the output folder. */
import { join } from 'tony-ts/training';

const cluster = await join();
const { tf, storage, outputUri, data } = cluster;
const numbers = (await storage.read(`${data.rows}/part-0.csv`)).toString().trim().split('\n').map(Number);
const model = tf.sequential();
model.add(tf.layers.dense({ units: 1, inputShape: [1] }));
model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
const values = Float32Array.from(numbers);
await cluster.fit(
  model,
  { x: { values, shape: [values.length, 1] }, y: { values, shape: [values.length, 1] } },
  { epochs: 1, batchSize: 2 },
);
await storage.write(`${outputUri}/sum`, Buffer.from(String(numbers.reduce((sum, each) => sum + each, 0))));
