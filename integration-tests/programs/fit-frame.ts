/**
 * Trains on the columns `features` and `label` of a DataFrame, and validates on another one. Writes the first feature of each example that each step uses to
 * `$OUT/used-RANK-GENERATION`, one JSON line per step. Rank 1 kills itself in the first generation after the step `$DEATH`.
 */
import { appendFileSync } from 'node:fs';
import type { Tensor } from '@tensorflow/tfjs';
import { data, join } from 'tony-ts/training';

const { OUT, DEATH } = process.env;
const cluster = await join({ timeouts: { joinMs: 60_000, graceMs: 60_000 } });
const { tf, rank, generation } = cluster;
const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [2] })] });
model.compile({ optimizer: tf.train.sgd(0.01), loss: 'meanSquaredError' });
const dataset = data.fromDataFrame('train', { x: 'features', y: 'label' }).batch(32);
let epoch = -1;
let step = 0;
const { history } = await cluster.fit(
  model,
  {
    dataset,
    prepare: ({ x, y }: { x: Tensor[]; y: Tensor[] }) => {
      const [features, label] = [x[0] as Tensor, y[0] as Tensor];
      const rows = features.arraySync() as number[][];
      const ids = rows.map(([id = 0]) => Math.round(id * 1000));
      appendFileSync(`${OUT}/used-${rank}-${generation}`, `${JSON.stringify({ epoch, step, ids, labels: [...label.dataSync()] })}\n`);
      return { x: features, y: label };
    },
  },
  {
    validationData: data.fromDataFrame('val', { x: 'features', y: 'label' }),
    callbacks: {
      onTrainBegin: () => {
        step = -1;
      },
      onEpochBegin: (begun: number) => {
        epoch = begun;
      },
      onBatchEnd: (_: number, logs: { readonly step: number }) => {
        step = logs.step;
        if (generation === 1 && rank === 1 && step === Number(DEATH)) {
          process.kill(process.pid, 'SIGKILL');
        }
      },
    },
  },
);
console.log(`trained ${history.loss?.length} epochs, validated ${history.val_loss?.length}`);
await cluster.close();
