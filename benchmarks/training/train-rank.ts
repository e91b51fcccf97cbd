import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type * as tfjs from '@tensorflow/tfjs';
import { shuffledOrder } from '../../platform/random.ts';
import { Secret } from '../../platform/secret.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import { loadBackend } from '../../training/backend/backend.ts';
import { FusedOptimizer } from '../../training/backend/native/fused-optimizer.ts';
import { Phases } from '../../training/checkpoint/phases.ts';
import { batchOf, type TrainingData } from '../../training/data/data.ts';
import { type FitEnvironment, fit as fitModel } from '../../training/fit/fit.ts';
import { inspectModel } from '../../training/model/compiled-model.ts';
import { Ring } from '../../training/ring/ring.ts';
import { allReduceStrategy } from '../../training/strategy/all-reduce/all-reduce-strategy.ts';

/**
 * Runs one training process of the benchmark. Its first input line is the task. Each further line is a number of steps, to which it
 * responds with the duration.
 */
export type ModelKind = 'mlp' | 'cnn' | 'lstm';

export interface RankStart {
  /** `separate`: without compiled steps. `own`: with TensorFlow.js's kernels. `loop`: with native kernels, without `fit`. */
  readonly mode: 'fit' | 'separate' | 'own' | 'loop';
  readonly kind: ModelKind;
  /** Folder with x.f32 and y.f32. */
  readonly data: string;
  readonly rank: number;
  readonly ports: readonly number[];
  /** Random key for this run, in base64. */
  readonly key: string;
}

/** `processor`: CPU time of all threads of the process. */
export interface Seconds {
  readonly wall: number;
  readonly processor: number;
}

export const INPUTS: Readonly<Record<ModelKind, readonly number[]>> = { mlp: [784], cnn: [28, 28, 1], lstm: [28, 28] };

export const BATCH = 64;
/** Number of steps before the measurement starts. */
const WARM = 5;

export async function trainRank(): Promise<void> {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const start = JSON.parse((await lines.next()).value as string) as RankStart;
  const { rank, ports } = start;
  const { tf } = await loadBackend(ports.length);
  const ring = await Ring.join({
    rank,
    worldSize: ports.length,
    generation: 1,
    key: new Secret(Buffer.from(start.key, 'base64')),
    listener: { fd: null, host: '127.0.0.1', port: ports[rank] as number },
    addresses: ports.map((port) => ({ host: '127.0.0.1', port })),
    onLost: () => process.exit(1),
  });
  const model = makeModel(tf, start.kind);
  const x = numbersOf(await readFile(path.join(start.data, 'x.f32')));
  const y = numbersOf(await readFile(path.join(start.data, 'y.f32')));
  const environment = {
    tf,
    strategy: allReduceStrategy(ring),
    jobId: '',
    generation: 1,
    phase: new Phases('').begin('fit'),
    checkpoints: null,
    storage: new FileStorage(),
    summaries: null,
    report: () => {},
  };
  process.stdout.write('ready\n');
  for await (const line of lines) {
    const steps = Number(line) + WARM;
    const data = sample(start.kind, x, y, steps * BATCH * ports.length);
    const time =
      start.mode === 'loop' ? bareLoop(tf, model, data, steps) : await timedFit(environment, model, data, steps, start.mode === 'fit');
    process.stdout.write(`${JSON.stringify(time)}\n`);
  }
  ring.close();
}

function now(): Seconds {
  const { user, system } = process.cpuUsage();
  return { wall: performance.now() / 1000, processor: (user + system) / 1e6 };
}

function between(begin: Seconds, end: Seconds): Seconds {
  return { wall: end.wall - begin.wall, processor: end.processor - begin.processor };
}

/** Measures the time from step WARM to the last step. */
async function timedFit(
  environment: FitEnvironment,
  model: tfjs.LayersModel,
  data: TrainingData,
  steps: number,
  compile: boolean,
): Promise<Seconds> {
  let [begun, ended] = [now(), now()];
  const onBatchEnd = (batch: number) => {
    // The CPU time is read only at the end, because reading it is slow while other threads run.
    if (batch === WARM - 1) {
      begun = now();
    }
    if (batch === steps - 1) {
      ended = now();
    }
  };
  await fitModel(environment, model, data, { epochs: 1, batchSize: BATCH, compile, callbacks: { onBatchEnd } });
  return between(begun, ended);
}

function bareLoop(tf: typeof tfjs, model: tfjs.LayersModel, data: TrainingData, steps: number): Seconds {
  const { trainable, optimizer, lossOf } = inspectModel(tf, model);
  const update = new FusedOptimizer(tf, optimizer);
  // Creates batches in the order in which `fit` takes the examples.
  const order = shuffledOrder(steps * BATCH, 1, 0);
  let begun = now();
  for (let step = 0; step < steps; step++) {
    if (step === WARM) {
      begun = now();
    }
    const indices = order.subarray(step * BATCH, (step + 1) * BATCH);
    const { value, grads } = tf.variableGrads(() => {
      const batch = batchOf(tf, data, indices);
      return lossOf(batch.x, batch.y).loss;
    }, [...trainable]);
    update.apply(trainable.map(({ name }) => ({ name, tensor: grads[name] as tfjs.Tensor })));
    value.dataSync();
    tf.dispose([value, grads]);
  }
  const seconds = between(begun, now());
  update.dispose();
  return seconds;
}

function makeModel(tf: typeof tfjs, kind: ModelKind): tfjs.LayersModel {
  const { layers } = tf;
  const inputShape = [...INPUTS[kind]];
  const hidden: Readonly<Record<ModelKind, () => tfjs.layers.Layer[]>> = {
    mlp: () => [layers.dense({ units: 512, activation: 'relu', inputShape }), layers.dense({ units: 512, activation: 'relu' })],
    cnn: () => [
      layers.conv2d({ filters: 32, kernelSize: 3, activation: 'relu', inputShape }),
      layers.conv2d({ filters: 64, kernelSize: 3, activation: 'relu' }),
      layers.maxPooling2d({ poolSize: 2 }),
      layers.flatten(),
      layers.dense({ units: 128, activation: 'relu' }),
    ],
    lstm: () => [layers.lstm({ units: 64, inputShape })],
  };
  const model = tf.sequential({ layers: [...hidden[kind](), layers.dense({ units: 10, activation: 'softmax' })] });
  model.compile({ optimizer: tf.train.adam(0.001), loss: 'categoricalCrossentropy' });
  return model;
}

function numbersOf(file: Buffer): Float32Array {
  return new Float32Array(file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength));
}

/** Returns the first `count` examples. If the data has fewer, starts again from the beginning. */
function sample(kind: ModelKind, x: Float32Array, y: Float32Array, count: number): TrainingData {
  const repeated = (values: Float32Array, width: number) => {
    const all = new Float32Array(count * width);
    for (let at = 0; at < all.length; at += values.length) {
      all.set(values.subarray(0, Math.min(values.length, all.length - at)), at);
    }
    return all;
  };
  const width = INPUTS[kind].reduce((product, size) => product * size, 1);
  return { x: { values: repeated(x, width), shape: [count, ...INPUTS[kind]] }, y: { values: repeated(y, 10), shape: [count, 10] } };
}
