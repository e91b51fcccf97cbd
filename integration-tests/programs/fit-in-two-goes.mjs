/**
 * `fit-in-two-goes.mjs DIR FAIL_AT`: trains 50 steps with a checkpoint every 20 steps. Fails after step FAIL_AT, once the previous
 * checkpoint exists.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { join } from 'tony-ts/training';

const [dir, failAt] = process.argv.slice(2);
const cluster = await join({ summaryDir: `${dir}/summaries`, checkpoint: { dir: `${dir}/checkpoints`, everySteps: 20 } });
const { tf } = cluster;
const model = tf.sequential();
model.add(tf.layers.dense({ units: 4, name: 'hidden', inputShape: [3] }));
model.add(tf.layers.dense({ units: 1, name: 'out' }));
model.compile({ optimizer: tf.train.adam(0.02), loss: 'meanSquaredError' });
cluster.summaries.hparams({ note: 'a test' }, { metrics: ['loss'] });
const values = Float32Array.from({ length: 300 }, (_, index) => Math.cos(index));
const data = { x: { values, shape: [100, 3] }, y: { values: values.subarray(0, 100), shape: [100, 1] } };
await cluster.fit(model, data, {
  epochs: 5,
  batchSize: 10,
  summaries: { everySteps: 5, histograms: true },
  callbacks: {
    onBatchEnd: async (_, { step }) => {
      if (step !== Number(failAt)) {
        return;
      }
      while ((await cluster.storage.stat(`${dir}/checkpoints/step-20`)) === null) {
        await delay(20);
      }
      throw new Error('on purpose');
    },
  },
});
