/**
 * Runs one rank. Trains the given nets together with the other ranks. For comparison, rank 0 also trains each net alone, on all ranks'
 * batches. The argument is a CorrectnessStart in JSON. The listening socket is file descriptor 3.
 */
import { createHash } from 'node:crypto';
import type * as tfjs from '@tensorflow/tfjs';
import type { WireSecurity } from '../../conf/job.ts';
import { Secret } from '../../platform/secret.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { loadBackend } from '../backend/backend.ts';
import { Phases } from '../checkpoint/phases.ts';
import type { TrainingData } from '../data/data.ts';
import { type FitEnvironment, fit as fitModel } from '../fit/fit.ts';
import type { FitOptions } from '../fit/fit-options.ts';
import { Ring } from '../ring/ring.ts';
import { allReduceStrategy } from '../strategy/all-reduce/all-reduce-strategy.ts';

export interface CorrectnessStart {
  readonly rank: number;
  readonly ports: readonly number[];
  /** The ring's key, in base64. */
  readonly key: string;
  readonly security: WireSecurity;
  readonly cases: readonly CorrectnessCase[];
}

export interface CorrectnessCase {
  readonly net: 'dense' | 'convolutions with batch normalisation' | 'dense layers with batch normalisation' | 'lstm';
  readonly optimizer: 'sgd' | 'momentum' | 'adam';
  /** The number of examples in each micro-batch on each rank. */
  readonly batchSize: number;
  readonly examples: number;
  /** Default: 2. */
  readonly epochs?: number;
  /** If false, rank 0 does not train the net alone. */
  readonly alone?: false;
  readonly options?: Pick<FitOptions, 'accumulate' | 'clipNorm' | 'syncBatchNorm' | 'verifyEverySteps'>;
}

export interface CorrectnessResult {
  /**
   * The largest difference between training together and alone, over all weights and moving averages, or null if rank 0 did not train
   * alone.
   */
  readonly difference: number | null;
  /** The largest change in any weight during training. */
  readonly moved: number;
  readonly lossDifference: number | null;
  readonly hash: string;
  readonly leaked: number;
}

const start = JSON.parse(process.argv[2] as string) as CorrectnessStart;
const { tf } = await loadBackend(start.ports.length);

const seeded = (seed: number) => tf.initializers.glorotUniform({ seed });

const NETS: Readonly<Record<CorrectnessCase['net'], () => tfjs.layers.Layer[]>> = {
  dense: () => [
    tf.layers.flatten({ inputShape: [6, 6, 2] }),
    tf.layers.dense({ units: 9, activation: 'relu', kernelInitializer: seeded(1), kernelRegularizer: tf.regularizers.l2({ l2: 0.01 }) }),
    tf.layers.dense({ units: 3, activation: 'softmax', kernelInitializer: seeded(2) }),
  ],
  'convolutions with batch normalisation': () => [
    // No bias: normalisation would cancel it, so its gradient would consist of rounding errors, which adam amplifies.
    tf.layers.conv2d({ filters: 4, kernelSize: 3, useBias: false, inputShape: [6, 6, 2], kernelInitializer: seeded(1) }),
    tf.layers.batchNormalization({ momentum: 0.8 }),
    tf.layers.activation({ activation: 'relu' }),
    tf.layers.conv2d({ filters: 5, kernelSize: 2, useBias: false, kernelInitializer: seeded(2) }),
    tf.layers.batchNormalization({ momentum: 0.8 }),
    tf.layers.activation({ activation: 'tanh' }),
    tf.layers.flatten(),
    tf.layers.dense({ units: 3, activation: 'softmax', kernelInitializer: seeded(3) }),
  ],
  'dense layers with batch normalisation': () => [
    tf.layers.batchNormalization({ inputShape: [6, 6, 2] }),
    tf.layers.flatten(),
    tf.layers.dense({ units: 9, useBias: false, kernelInitializer: seeded(1) }),
    tf.layers.batchNormalization({}),
    tf.layers.activation({ activation: 'sigmoid' }),
    tf.layers.dense({ units: 3, activation: 'softmax', kernelInitializer: seeded(2) }),
  ],
  lstm: () => [
    tf.layers.reshape({ targetShape: [6, 12], inputShape: [6, 6, 2] }),
    tf.layers.lstm({ units: 5, kernelInitializer: seeded(1), recurrentInitializer: seeded(2) }),
    tf.layers.dense({ units: 3, activation: 'softmax', kernelInitializer: seeded(3) }),
  ],
};

const OPTIMIZERS: Readonly<Record<CorrectnessCase['optimizer'], () => tfjs.Optimizer>> = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.05, 0.9),
  adam: () => tf.train.adam(0.01, 0.9, 0.999, 1e-4),
};

/** The number of slots per variable for each optimizer. */
const SLOTS: Readonly<Record<CorrectnessCase['optimizer'], number>> = { sgd: 0, momentum: 1, adam: 2 };

function makeModel({ net, optimizer }: CorrectnessCase): tfjs.LayersModel {
  const model = tf.sequential({ layers: NETS[net]() });
  model.compile({ optimizer: OPTIMIZERS[optimizer](), loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  return model;
}

function makeData(examples: number): TrainingData {
  // Channels with means far from 0 and different variances.
  const values = Float32Array.from({ length: examples * 72 }, (_, index) => Math.sin(index * index) * (1 + (index % 2) * 3) + 5);
  const labels = Uint8Array.from({ length: examples }, (_, index) => (Math.sin(index * 7.3) > 0 ? 0 : index % 3));
  return {
    x: { values, shape: [examples, 6, 6, 2] },
    y: { values: labels, shape: [examples] },
    prepare: ({ x, y }) => ({ x, y: tf.oneHot((y[0] as tfjs.Tensor).toInt(), 3).toFloat() }),
  };
}

function environmentOf(ring: Ring): FitEnvironment {
  return {
    tf,
    strategy: allReduceStrategy(ring),
    storage: new FileStorage(),
    jobId: '',
    generation: 1,
    phase: new Phases('').begin('fit'),
    checkpoints: null,
    summaries: null,
    report: () => {},
  };
}

const numbersOf = (model: tfjs.LayersModel) => model.getWeights().flatMap((weight) => [...weight.dataSync()]);

function difference(one: readonly number[], other: readonly number[]): number {
  return one.reduce((most, value, index) => Math.max(most, Math.abs(value - (other[index] as number))), 0);
}

async function run(given: CorrectnessCase, ring: Ring, alone: Ring): Promise<CorrectnessResult> {
  const { batchSize, examples, epochs = 2, options = {} } = given;
  const data = makeData(examples);
  const model = makeModel(given);
  const initial = numbersOf(model);
  const before = tf.memory().numTensors;
  const history = await fitModel(environmentOf(ring), model, data, { ...options, epochs, batchSize });
  const weights = numbersOf(model);
  const leaked = tf.memory().numTensors - before - SLOTS[given.optimizer] * model.trainableWeights.length;
  const hash = createHash('sha256').update(Float32Array.from(weights)).digest('hex').slice(0, 16);
  const moved = difference(weights, initial);
  if (ring.rank > 0 || given.alone === false) {
    return { difference: null, moved, lossDifference: null, hash, leaked };
  }
  const { accumulate = 1, ...others } = options;
  const reference = makeModel(given);
  const whole = { ...others, epochs, batchSize: batchSize * ring.worldSize * accumulate };
  const expected = await fitModel(environmentOf(alone), reference, data, whole);
  return {
    difference: difference(weights, numbersOf(reference)),
    moved,
    lossDifference: difference(history.history.loss ?? [], expected.history.loss ?? []),
    hash,
    leaked,
  };
}

const { rank, ports, security } = start;
const key = new Secret(Buffer.from(start.key, 'base64'));
const addresses = ports.map((port) => ({ host: '127.0.0.1', port }));
const listener = { fd: 3, host: '127.0.0.1', port: ports[rank] as number };
const onLost = (peer: number, cause: string) => {
  console.error(`rank ${peer} ${cause}`);
  process.exit(1);
};
const ring = await Ring.join({ rank, worldSize: ports.length, generation: 1, key, security, listener, addresses, onLost });
const alone = await Ring.join({
  rank: 0,
  worldSize: 1,
  generation: 1,
  key: new Secret(new Uint8Array(0)),
  listener,
  addresses: [],
  onLost,
});
for (const each of start.cases) {
  console.log(JSON.stringify(await run(each, ring, alone)));
}
await ring.barrier();
ring.close();
