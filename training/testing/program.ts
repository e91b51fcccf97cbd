/**
 * A user's program, as gang.ts starts it: trains a small model, and prints its weights. STEP_MS makes its steps slow. With HANG_AT it stands
 * still, for somebody to kill it: at the end of a step (`step-12`), when its last checkpoint is written but has no name yet (`before-commit`),
 * as soon as it has (`after-commit`), or with all of its training done (`end`). SIGUSR2 lets it go on. GRACE_MS is how long it waits to be
 * replaced when it has lost a peer.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { join } from '../index.ts';

const cluster = await join({ timeouts: { joinMs: 20_000, graceMs: Number(process.env.GRACE_MS ?? 500) } });
const { tf } = cluster;
console.log(JSON.stringify({ event: 'joined', rank: cluster.rank, worldSize: cluster.worldSize, backend: cluster.backend }));

const model = tf.sequential();
const initializer = () => tf.initializers.glorotUniform({ seed: 3 });
model.add(tf.layers.dense({ units: 6, activation: 'relu', inputShape: [3], kernelInitializer: initializer() }));
model.add(tf.layers.dropout({ rate: 0.2 }));
model.add(tf.layers.dense({ units: 1, kernelInitializer: initializer() }));
model.compile({ optimizer: 'adam', loss: 'meanSquaredError' });

const { HANG_AT = '' } = process.env;
async function hang(): Promise<void> {
  const alive = setInterval(() => {}, 1000);
  const released = once(process, 'SIGUSR2');
  console.log(JSON.stringify({ event: 'hangs' }));
  await released;
  clearInterval(alive);
}
if (HANG_AT.endsWith('-commit')) {
  const { storage } = cluster;
  const rename = storage.rename.bind(storage);
  storage.rename = async (from, to) => {
    const isLast = to.endsWith('/step-40');
    if (isLast && HANG_AT === 'before-commit') await hang();
    const renamed = await rename(from, to);
    if (isLast && HANG_AT === 'after-commit') await hang();
    return renamed;
  };
}

if (cluster.role === 'evaluator') {
  for await (const checkpoint of cluster.checkpoints({ everyMs: 20 })) {
    checkpoint.restore(model);
    cluster.metrics(checkpoint.step, {
      'test/loss': Number(tf.tidy(() => [model.evaluate(tf.ones([4, 3]), tf.ones([4, 1]))].flat()[0]?.dataSync()[0])),
    });
    console.log(JSON.stringify({ event: 'checkpoint', step: checkpoint.step, final: checkpoint.final }));
  }
} else {
  const values = Float32Array.from({ length: 300 }, (_, index) => Math.cos(index));
  const history = await cluster.fit(
    model,
    { x: { values, shape: [100, 3] }, y: { values: values.subarray(0, 100), shape: [100, 1] } },
    {
      epochs: 4,
      batchSize: 5,
      callbacks: {
        onBatchEnd: async (_, { step }) => {
          console.log(JSON.stringify({ event: 'step', step }));
          if (HANG_AT === `step-${step}`) await hang();
          await new Promise((resolve) => setTimeout(resolve, Number(process.env.STEP_MS ?? 0)));
        },
      },
    },
  );
  const hash = createHash('sha256');
  for (const weight of model.getWeights()) {
    hash.update(new Uint8Array(weight.dataSync().buffer));
  }
  if (HANG_AT === 'end') await hang();
  console.log(JSON.stringify({ event: 'done', steps: history.steps, weights: hash.digest('hex') }));
}
