/**
 * Runs on the runtime's Node.js with the native backend. For each optimizer, checks that training with parameter servers gives the same
 * weights as training without them, and does not leak tensors. Prints one line per optimizer.
 */
import type * as tfjs from '@tensorflow/tfjs';
import { listening } from '../../../contract/testing/listening.ts';
import { Secret } from '../../../platform/secret.ts';
import { FileStorage } from '../../../storage/file-storage.ts';
import { loadBackend } from '../../backend/backend.ts';
import { Phases } from '../../checkpoint/phases.ts';
import { fit as fitModel } from '../../fit/fit.ts';
import { Ring } from '../../ring/ring.ts';
import { allReduceStrategy } from '../../strategy/all-reduce/all-reduce-strategy.ts';
import type { StrategyFactory } from '../../strategy/strategy.ts';
import { ParameterServer } from '../server/serve.ts';
import { parameterServerStrategy } from '../worker/parameter-server-strategy.ts';

const { tf } = await loadBackend(1);
const key = new Secret(Buffer.alloc(32, 7));
const SERVERS = 3;
const NONE = { generation: 1, rank: 0, worldSize: 1, onLost: () => {} };

const places = await Promise.all(Array.from({ length: SERVERS }, listening));
const addresses = places.map(({ address }) => address);
const servers = await Promise.all(
  places.map(({ server }, index) =>
    ParameterServer.open({
      ...{ tf, storage: new FileStorage(), checkpointDir: null, index, worldSize: 1, generation: 1, key, onNotice: () => {} },
      listener: server,
    }),
  ),
);
let runs = 0;
const served = parameterServerStrategy({
  ...{ ...NONE, key, addresses, staleness: null },
  nextRun: () => {
    runs++;
    return runs;
  },
});
const ring = await Ring.join({ ...NONE, key, addresses: [], listener: { fd: null, host: '127.0.0.1', port: 0 } });

function makeModel(optimizer: tfjs.Optimizer) {
  const kernelInitializer = () => tf.initializers.glorotUniform({ seed: 5 });
  const model = tf.sequential();
  model.add(
    tf.layers.conv2d({ filters: 8, kernelSize: 3, activation: 'relu', inputShape: [12, 12, 1], kernelInitializer: kernelInitializer() }),
  );
  model.add(tf.layers.flatten());
  // This variable has 80,000 elements, which is more than a server's fair share, so it is split.
  model.add(tf.layers.dense({ units: 100, activation: 'relu', kernelInitializer: kernelInitializer() }));
  model.add(tf.layers.dense({ units: 3, activation: 'softmax', kernelInitializer: kernelInitializer() }));
  model.compile({ optimizer, loss: 'categoricalCrossentropy' });
  return model;
}

const pixels = Float32Array.from({ length: 96 * 144 }, (_, index) => Math.sin(index * 0.37));
const targets = Float32Array.from({ length: 96 * 3 }, (_, index) => (index % 3 === Math.floor(index / 3) % 3 ? 1 : 0));
const data = { x: { values: pixels, shape: [96, 12, 12, 1] }, y: { values: targets, shape: [96, 3] } };

async function train(strategy: StrategyFactory, optimizer: tfjs.Optimizer, epochs: number): Promise<Float32Array[]> {
  const model = makeModel(optimizer);
  const environment = { tf, strategy, generation: 1, jobId: '', summaries: null, checkpoints: null, report: () => {} };
  const phase = new Phases('').begin('fit');
  await fitModel({ ...environment, phase, storage: new FileStorage() }, model, data, { epochs, batchSize: 16 });
  const weights = model.getWeights().map((weight) => weight.dataSync() as Float32Array);
  model.dispose();
  optimizer.dispose();
  return weights;
}

const optimizers = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.05, 0.9),
  nesterov: () => tf.train.momentum(0.05, 0.9, true),
  adagrad: () => tf.train.adagrad(0.1),
  adadelta: () => tf.train.adadelta(0.5),
  adam: () => tf.train.adam(0.01),
  adamax: () => tf.train.adamax(0.01),
  rmsprop: () => tf.train.rmsprop(0.005, 0.9, 0.5),
};
for (const [name, make] of Object.entries(optimizers)) {
  const [alone, remote] = [await train(allReduceStrategy(ring), make(), 3), await train(served, make(), 3)];
  const far = Math.max(
    ...alone.map((weight, at) => weight.reduce((most, value, i) => Math.max(most, Math.abs(value - (remote[at]?.[i] ?? NaN))), 0)),
  );
  console.log(`${name}: difference ${far} ${far <= 1e-6 ? 'ok' : 'is too large'}`);
}

/** Returns the lowest tensor count observed within 0.8 s. Servers need some time to free a run after its worker has disconnected. */
async function fewestTensors(): Promise<number> {
  let fewest = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 40; look++) {
    fewest = Math.min(fewest, tf.memory().numTensors);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return fewest;
}
await train(served, tf.train.adam(0.01), 1);
const before = await fewestTensors();
await train(served, tf.train.adam(0.01), 9);
const left = (await fewestTensors()) - before;
console.log(`${left} leaked tensors ${left === 0 ? 'ok' : 'are too many'}`);
for (const server of servers) {
  server.close();
}
console.log('done');
process.exit(0);
