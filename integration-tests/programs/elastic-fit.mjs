/**
 * `elastic-fit.mjs OUT [GO]`: trains with a constant global batch for any number of workers. Without GO, it trains 200 steps, and worker 1
 * dies in generation 1 after step 45, once the checkpoint of step 40 exists. With GO, it trains slowly until the file GO exists. For each
 * step the chief appends `generation step workers rate loss` to OUT.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { join } from 'tony-ts/training';

const [out = '', go] = process.argv.slice(2);
const { checkpoint } = JSON.parse(readFileSync(process.env.TONY_TASK_FILE ?? '', 'utf8'));
const cluster = await join();
const { tf, rank, index, generation } = cluster;
const worldSize = cluster.share.count;
const model = tf.sequential();
model.add(tf.layers.dense({ units: 4, activation: 'tanh', inputShape: [3] }));
model.add(tf.layers.dense({ units: 1 }));
model.compile({ optimizer: tf.train.momentum(0.01, 0.9), loss: 'meanSquaredError' });
const values = Float32Array.from({ length: 720 }, (_, at) => Math.cos(at));
const data = { x: { values, shape: [240, 3] }, y: { values: values.subarray(0, 240), shape: [240, 1] } };
let rate = 0;
await cluster.fit(model, data, {
  epochs: go === undefined ? 20 : 100_000,
  batchSize: 24 / worldSize,
  learningRate: ({ worldSize: workers, initial }) => {
    rate = initial * workers;
    return rate;
  },
  callbacks: {
    onBatchEnd: async (_, { step, loss }) => {
      if (rank === 0) {
        appendFileSync(out, `${generation} ${step} ${worldSize} ${rate} ${loss}\n`);
      }
      if (go !== undefined) {
        await delay(30);
        model.stopTraining = existsSync(go);
        return;
      }
      if (generation > 1 || index !== 1 || step !== 45) {
        return;
      }
      while ((await cluster.storage.stat(`${checkpoint.dir}/step-40`)) === null) {
        await delay(20);
      }
      process.exit(3);
    },
  },
});
