/** Logs one summary of each kind that TensorBoard shows, and runs until the file `go` exists. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import * as tf from '@tensorflow/tfjs';
import { join } from 'tony-ts/training';

const cluster = await join();
const { summaries } = cluster;
for (let step = 1; step <= 200; step++) {
  // The test computes the same values.
  summaries.scalars({ 'train/loss': Math.exp(-step / 50), 'train/accuracy': 1 - Math.exp(-step / 30) }, step);
  if (step % 20 === 0) {
    summaries.histogram('layer/weights', tf.randomNormal([1000], step / 100, 1, 'float32', step), step);
  }
}
summaries.image('samples', tf.randomUniform([2, 16, 16, 3], 0, 1, 'float32', 7), 200);
summaries.text('notes', 'Trained on **nothing** at all.', 200);
summaries.hparams({ optimizer: 'sgd', 'learning rate': 0.1 }, { metrics: ['train/loss'] });
await summaries.flush();
cluster.report({ done: 1 }, { step: 200 });
const go = path.join(process.env.OUT ?? '.', 'go');
while (!existsSync(go)) {
  await delay(100);
}
