/**
 * Trains a small network with layers of all kinds, and kills itself at a given generation, step and rank. The program dies either between
 * two steps or during a step, while the other ranks wait in their forward pass.
 */
import { createHash } from 'node:crypto';
import type { Tensor } from '@tensorflow/tfjs';
// Imports the bundle that jobs use. The bundle's type declarations may not exist.
import { join } from 'tony-ts/training';

export interface Death {
  readonly rank: number;
  readonly step: number;
  readonly where: 'between' | 'within';
}

const deaths = JSON.parse(process.env.DEATHS ?? '{}') as Record<number, Death>;
const cluster = await join({ timeouts: { joinMs: 60_000, graceMs: 60_000 } });
const { tf, rank, generation } = cluster;
const death = deaths[generation];

function dieAt(step: number, where: Death['where']): void {
  if (death !== undefined && death.rank === rank && death.step === step && death.where === where) {
    process.kill(process.pid, 'SIGKILL');
  }
}

const seeded = (seed: number) => tf.initializers.glorotUniform({ seed });
const model = tf.sequential({
  layers: [
    tf.layers.conv2d({ filters: 4, kernelSize: 3, useBias: false, inputShape: [6, 6, 2], kernelInitializer: seeded(1) }),
    tf.layers.batchNormalization({ momentum: 0.8 }),
    tf.layers.activation({ activation: 'relu' }),
    tf.layers.dropout({ rate: 0.3 }),
    tf.layers.flatten(),
    tf.layers.dense({ units: 3, activation: 'softmax', kernelInitializer: seeded(2) }),
  ],
});
model.compile({ optimizer: tf.train.adam(0.01), loss: 'categoricalCrossentropy' });

const EXAMPLES = 60;
const values = Float32Array.from({ length: EXAMPLES * 72 }, (_, index) => Math.sin(index * index));
const labels = Uint8Array.from({ length: EXAMPLES }, (_, index) => index % 3);
let step = 0;
const history = await cluster.fit(
  model,
  {
    x: { values, shape: [EXAMPLES, 6, 6, 2] },
    y: { values: labels, shape: [EXAMPLES] },
    prepare: ({ x, y }: { x: Tensor[]; y: Tensor[] }) => {
      dieAt(step + 1, 'within');
      return { x, y: tf.oneHot((y[0] as Tensor).toInt(), 3).toFloat() };
    },
  },
  {
    epochs: 4,
    batchSize: 4,
    verifyEverySteps: 3,
    callbacks: {
      onBatchEnd: (_: number, logs: { readonly step: number }) => {
        step = logs.step;
        dieAt(step, 'between');
      },
    },
  },
);
const hash = createHash('sha256');
for (const weight of model.getWeights()) {
  hash.update(new Uint8Array(weight.dataSync().slice().buffer));
}
console.log(JSON.stringify({ steps: history.steps, hash: hash.digest('hex').slice(0, 16) }));
