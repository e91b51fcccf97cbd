// Trains on dispatched files for one epoch. For each step, appends a line with the records of that step to `$OUT/used-<rank>-<generation>`.
import { appendFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { data, join } from 'tony-ts/training';

const { OUT, FILES = '', HOLD = 'no' } = process.env;
const cluster = await join();
const { tf, rank, generation } = cluster;
writeFileSync(`${OUT}/pid-${rank}`, String(process.pid));
const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
model.compile({ optimizer: tf.train.sgd(1e-9), loss: 'meanSquaredError' });
/** @type {number[]} */
let used = [];
let taken = 0;
const dataset = data
  .lines(FILES)
  .map((line) => ({ xs: [Number(line)], ys: 0 }))
  .shuffle(40)
  .dispatch()
  .batch(5);
const { steps } = await cluster.fit(
  model,
  {
    dataset,
    prepare: (batch) => {
      used = batch.x.flatMap((column) => [...column.dataSync()]);
      return batch;
    },
  },
  {
    callbacks: {
      onBatchEnd: async () => {
        appendFileSync(`${OUT}/used-${rank}-${generation}`, `${used.join(' ')}\n`);
        used = [];
        taken++;
        await delay(rank === 0 ? 20 : 5);
        // With HOLD, the ranks of generation 1 wait here after step 31 until the test kills one of them.
        while (HOLD === 'yes' && generation === 1 && taken > 30) {
          await delay(20);
        }
      },
    },
  },
);
if (rank === 0) {
  writeFileSync(`${OUT}/steps`, String(steps));
}
await cluster.close();
