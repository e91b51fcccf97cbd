/** Trains a few steps with checkpoints. Each worker writes a file to HDFS and reads the files of the other workers. */
import { setTimeout as delay } from 'node:timers/promises';
import { join } from 'tony-ts/training';

const cluster = await join({ checkpointEverySteps: 5 });
const { tf, storage, outputDir, rank, worldSize } = cluster;
const model = tf.sequential();
model.add(tf.layers.dense({ units: 1, inputShape: [3] }));
model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
const values = Float32Array.from({ length: 300 }, (_, index) => Math.cos(index));
await cluster.fit(
  model,
  { x: { values, shape: [100, 3] }, y: { values: values.subarray(0, 100), shape: [100, 1] } },
  { epochs: 2, batchSize: 10 },
);

await storage.write(`${outputDir}/rank-${rank}`, Buffer.from(String(rank)));
for (let other = 0; other < worldSize; other++) {
  const file = `${outputDir}/rank-${other}`;
  while ((await storage.stat(file)) === null) {
    await delay(20);
  }
  if ((await storage.read(file)).toString() !== String(other)) {
    throw new Error(`${file} has another content`);
  }
}
