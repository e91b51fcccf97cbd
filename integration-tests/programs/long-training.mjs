/** Trains with checkpoints until the file that END names exists. Then writes a file to HDFS. */
import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { join } from 'tony-ts/training';

const cluster = await join();
const { tf, storage, outputUri, rank } = cluster;
const model = tf.sequential();
model.add(tf.layers.dense({ units: 1, inputShape: [3] }));
model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
const values = Float32Array.from({ length: 300 }, (_, index) => Math.cos(index));
await cluster.fit(
  model,
  { x: { values, shape: [100, 3] }, y: { values: values.subarray(0, 100), shape: [100, 1] } },
  {
    epochs: 10_000,
    batchSize: 50,
    callbacks: {
      onBatchEnd: async () => {
        await delay(500);
        model.stopTraining = existsSync(process.env.END ?? '');
      },
    },
  },
);
await storage.write(`${outputUri}/rank-${rank}`, Buffer.from(String(process.pid)));
