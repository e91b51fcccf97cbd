/** A user's program for join.test.ts: trains a small model, and prints its weights. */
import { createHash } from 'node:crypto';
import { join } from '../index.ts';

const cluster = await join({ timeouts: { joinMs: 20_000, graceMs: 500 } });
const { tf } = cluster;
console.log(JSON.stringify({ event: 'joined', rank: cluster.rank, worldSize: cluster.worldSize, backend: cluster.backend }));

const model = tf.sequential();
const initializer = () => tf.initializers.glorotUniform({ seed: 3 });
model.add(tf.layers.dense({ units: 6, activation: 'relu', inputShape: [3], kernelInitializer: initializer() }));
model.add(tf.layers.dropout({ rate: 0.2 }));
model.add(tf.layers.dense({ units: 1, kernelInitializer: initializer() }));
model.compile({ optimizer: 'adam', loss: 'meanSquaredError' });

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
          // Slow enough for the test to interfere.
          await new Promise((resolve) => setTimeout(resolve, Number(process.env.STEP_MS ?? 0)));
        },
      },
    },
  );
  const hash = createHash('sha256');
  for (const weight of model.getWeights()) {
    hash.update(new Uint8Array(weight.dataSync().buffer));
  }
  console.log(JSON.stringify({ event: 'done', steps: history.steps, weights: hash.digest('hex') }));
}
