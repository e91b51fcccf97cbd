/**
 * The user's program that gang.ts runs. The program trains a small model and prints the weights. Environment variables:
 *
 * - STEP_MS is how long, in ms, the program pauses at the end of each step.
 * - PHASES=3 trains a model, freezes one of its layers, trains it again, and then trains another model.
 * - HANG_AT makes the program hang until it receives SIGUSR2, so that a test can kill it at this point: the end of a step (`step-12`, or
 *   `fit-2/step-3` for a step of a phase), before the last checkpoint is renamed (`before-commit`), immediately after that
 *   (`after-commit`), or after all training (`end`).
 * - EXIT_AT makes the program call process.exit(0) at this point: the end of a step (`step-12`, or `closed-step-12` to call
 *   cluster.close() first), in onTrainEnd (`train-end`), or after `fit` (`end`).
 * - GRACE_MS is the ring's grace period in ms after a neighbour is lost.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { join } from '../index.ts';

const cluster = await join({ timeouts: { joinMs: 240_000, graceMs: Number(process.env.GRACE_MS ?? 500) } });
const { tf } = cluster;
console.log(JSON.stringify({ event: 'joined', rank: cluster.rank, worldSize: cluster.worldSize, backend: cluster.backend }));

const model = tf.sequential();
const initializer = () => tf.initializers.glorotUniform({ seed: 3 });
model.add(tf.layers.dense({ units: 6, activation: 'relu', inputShape: [3], kernelInitializer: initializer() }));
model.add(tf.layers.dropout({ rate: 0.2 }));
model.add(tf.layers.dense({ units: 1, kernelInitializer: initializer() }));
model.compile({ optimizer: 'adam', loss: 'meanSquaredError' });

const { HANG_AT = '', EXIT_AT = '' } = process.env;
function exitAt(place: string): void {
  if (EXIT_AT === `closed-${place}`) {
    void cluster.close();
  }
  if (EXIT_AT === place || EXIT_AT === `closed-${place}`) {
    process.exit(0);
  }
}
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
    if (isLast && HANG_AT === 'before-commit') {
      await hang();
    }
    const renamed = await rename(from, to);
    if (isLast && HANG_AT === 'after-commit') {
      await hang();
    }
    return renamed;
  };
}

function frozen(): typeof model {
  for (const layer of model.layers.slice(0, 1)) {
    layer.trainable = false;
  }
  model.compile({ optimizer: tf.train.sgd(0.05), loss: 'meanSquaredError' });
  return model;
}

if (cluster.role === 'evaluator') {
  for await (const checkpoint of cluster.checkpoints({ everyMs: 20 })) {
    checkpoint.load(model);
    const loss = Number(tf.tidy(() => [model.evaluate(tf.ones([4, 3]), tf.ones([4, 1]))].flat()[0]?.dataSync()[0]));
    cluster.report({ 'test/loss': loss }, { step: checkpoint.step });
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
          if (HANG_AT === `step-${step}`) {
            await hang();
          }
          exitAt(`step-${step}`);
          await new Promise((resolve) => setTimeout(resolve, Number(process.env.STEP_MS ?? 0)));
        },
        onTrainEnd: () => exitAt('train-end'),
      },
    },
  );
  const hash = createHash('sha256');
  for (const weight of model.getWeights()) {
    hash.update(new Uint8Array(weight.dataSync().buffer));
  }
  for (const phase of process.env.PHASES === '3' ? ['fit-2', 'fit-3'] : []) {
    const later =
      phase === 'fit-2'
        ? frozen()
        : tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [3], kernelInitializer: initializer() })] });
    if (phase === 'fit-3') {
      later.compile({ optimizer: tf.train.momentum(0.1, 0.9), loss: 'meanSquaredError' });
    }
    const onBatchEnd = async (_: number, { step }: { readonly step: number }) => {
      console.log(JSON.stringify({ event: `${phase}/step`, step }));
      if (HANG_AT === `${phase}/step-${step}`) {
        await hang();
      }
    };
    const examples = { x: { values, shape: [100, 3] }, y: { values: values.subarray(0, 100), shape: [100, 1] } };
    const { history: logs } = await cluster.fit(later, examples, { epochs: 2, batchSize: 5, callbacks: { onBatchEnd } });
    hash.update(JSON.stringify([history.history, logs]));
    for (const weight of later.getWeights()) {
      hash.update(new Uint8Array(weight.dataSync().buffer));
    }
  }
  if (HANG_AT === 'end') {
    await hang();
  }
  exitAt('end');
  console.log(JSON.stringify({ event: 'done', steps: history.steps, weights: hash.digest('hex') }));
}
