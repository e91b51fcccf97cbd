/**
 * Trains with checkpoints. In generation 1, worker 1 dies once a checkpoint exists. Each worker writes a file to HDFS and reads
 * the files of the other workers.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { join } from 'tony-ts/training';

const { checkpoint } = JSON.parse(readFileSync(process.env.TONY_TASK_FILE ?? '', 'utf8'));
const cluster = await join();
const { tf, storage, outputUri, rank, generation } = cluster;
const worldSize = cluster.share.count;
const model = tf.sequential();
model.add(tf.layers.dense({ units: 1, inputShape: [3] }));
model.compile({ optimizer: 'sgd', loss: 'meanSquaredError' });
const values = Float32Array.from({ length: 300 }, (_, index) => Math.cos(index));
let first = 0;
await cluster.fit(
  model,
  { x: { values, shape: [100, 3] }, y: { values: values.subarray(0, 100), shape: [100, 1] } },
  {
    epochs: 40,
    batchSize: 10,
    callbacks: {
      onBatchEnd: async (_, { step }) => {
        first ||= step;
        // The steps go on meanwhile, because the workers complete a checkpoint together, in a later step.
        if (generation === 1 && rank === 1 && step > 5) {
          await delay(50); // The training must last longer than the first checkpoint.
          const entries = await storage.list(checkpoint.dir);
          if (entries.some(({ name }) => name.startsWith('step-'))) {
            process.exit(3);
          }
        }
      },
    },
  },
);

if (generation > 1 && (first <= 1 || first % 5 !== 1)) {
  throw new Error(`generation ${generation} starts with step ${first}`);
}
await storage.write(`${outputUri}/rank-${rank}`, Buffer.from(String(rank)));
for (let other = 0; other < worldSize; other++) {
  const file = `${outputUri}/rank-${other}`;
  while ((await storage.stat(file)) === null) {
    await delay(20);
  }
  if ((await storage.read(file)).toString() !== String(other)) {
    throw new Error(`${file} has another content`);
  }
}
