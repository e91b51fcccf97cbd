// Trains on a feed until the feed's producer ends it. Writes the records that this rank receives to `$OUT/fed-<rank>-<generation>`, and the
// number of steps to `steps-...`.
import { appendFileSync, writeFileSync } from 'node:fs';
import { data, join } from 'tony-ts/training';

const { OUT } = process.env;
const cluster = await join();
const { tf, rank, generation } = cluster;
writeFileSync(`${OUT}/pid-${rank}`, String(process.pid));
writeFileSync(`${OUT}/begun-${rank}-${generation}`, '');
const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
model.compile({ optimizer: tf.train.sgd(0.01), loss: 'meanSquaredError' });
const records = data
  .fromFeed('numbers')
  .map((record) => {
    appendFileSync(`${OUT}/fed-${rank}-${generation}`, `${record}\n`);
    return { xs: [Number(record) / 1000], ys: Number(record) / 500 };
  })
  .batch(10);
const { steps } = await cluster.fit(model, records);
appendFileSync(`${OUT}/steps-${rank}-${generation}`, String(steps));
await cluster.close();
