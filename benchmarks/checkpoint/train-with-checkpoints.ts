import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import { CheckpointThread } from '../../contract/checkpoint/checkpoint-thread.ts';
import { CheckpointWriter } from '../../contract/checkpoint/checkpoint-writer.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { createStorage } from '../../storage/create-storage.ts';
import { loadBackend } from '../../training/backend/backend.ts';
import { inspectModel } from '../../training/model/compiled-model.ts';
import { captureState } from '../../training/model/training-state.ts';

export interface PauseStart {
  readonly dir: string;
  readonly user: string;
  readonly rounds: number;
  /** Approximate size of a checkpoint, including the optimizer's slots. */
  readonly mebibytes: number;
}

/** All times are in ms. */
export interface PauseRound {
  readonly mebibytes: number;
  readonly pause: number;
  readonly copy: number;
  readonly stepAlone: number;
  /** Step time while a checkpoint is being written. */
  readonly stepBeside: number;
  /** Time until the checkpoint is complete, while training continues. */
  readonly upload: number;
}

const MIB = 1024 * 1024;
const INPUTS = 784;
const BATCH = 64;
const STEPS = 5;

type Tf = Awaited<ReturnType<typeof loadBackend>>['tf'];

/** Runs one training process of the benchmark. Prints one line per round with the cost of a checkpoint. */
export async function trainWithCheckpoints({ dir, user, rounds, mebibytes }: PauseStart): Promise<void> {
  const { tf } = await loadBackend(1);
  const storage = createStorage({ hadoop: await HadoopConfiguration.fromEnvironment(), user });
  const { compiled, steps } = trainer(tf, mebibytes);
  // Opens the writer as `join` does. The thread's program is in the same folder as the training library.
  const thread = CheckpointThread.open(pathToFileURL(path.resolve('dist', 'container', 'checkpoint-thread.mjs')));
  let failure: string | null = null;
  const writer = new CheckpointWriter(new CheckpointStore(storage, dir, () => thread), {
    jobId: 'application_1_0001',
    generation: 1,
    keep: 1,
    onSaved: () => {},
    onTrouble: (message) => {
      failure = message;
    },
  });
  for (let round = 0; round <= rounds; round++) {
    const stepAlone = await steps();
    const { pause, taken } = await record(writer, round, () => captureState(tf, compiled));
    const { upload, stepBeside } = await trainUntilWritten(writer, steps);
    if (failure !== null) {
      throw new Error(failure);
    }
    const copying = performance.now();
    const copies = taken.map(({ bytes }) => bytes.slice());
    const copy = performance.now() - copying;
    const size = copies.reduce((sum, { length }) => sum + length, 0) / MIB;
    if (round > 0) {
      process.stdout.write(`${JSON.stringify({ mebibytes: size, pause, copy, stepAlone, stepBeside, upload } satisfies PauseRound)}\n`);
    }
  }
  storage.close();
  await thread?.close();
}

/** Creates a model of the given size, and a function that takes `STEPS` steps and returns the time of one step. */
function trainer(tf: Tf, mebibytes: number) {
  // A checkpoint contains the weights and two moments per weight.
  const parameters = (mebibytes * MIB) / 4 / 3;
  const units = Math.max(1, Math.round((-INPUTS + Math.sqrt(INPUTS ** 2 + 4 * parameters)) / 2));
  const model = tf.sequential();
  model.add(tf.layers.dense({ units, inputShape: [INPUTS], activation: 'relu' }));
  model.add(tf.layers.dense({ units, activation: 'relu' }));
  model.add(tf.layers.dense({ units: 10, activation: 'softmax' }));
  model.compile({ optimizer: 'adam', loss: 'categoricalCrossentropy' });
  const x = tf.randomNormal([BATCH, INPUTS]);
  const y = tf.oneHot(tf.randomUniform([BATCH], 0, 10, 'int32'), 10).toFloat();
  const steps = async (): Promise<number> => {
    const before = performance.now();
    for (let step = 0; step < STEPS; step++) {
      await model.trainOnBatch(x, y);
      // Yields to the event loop, as `fit` does between steps while it waits for the ring and the data.
      await new Promise((resolve) => setImmediate(resolve));
    }
    return (performance.now() - before) / STEPS;
  };
  return { compiled: inspectModel(tf, model), steps };
}

/** Writes a checkpoint. `pause` is the time in ms for which the checkpoint blocks training. */
async function record(writer: CheckpointWriter, round: number, capture: () => ReturnType<typeof captureState>) {
  const position = { step: round, phase: { name: 'fit-1', start: 0 }, epoch: 0, examples: 0, seed: 1, iterations: round, final: false };
  let taken: readonly { readonly bytes: Uint8Array }[] = [];
  const before = performance.now();
  await writer.record(async () => {
    const tensors = await capture();
    taken = tensors;
    return { position, tensors };
  });
  return { pause: performance.now() - before, taken };
}

async function trainUntilWritten(writer: CheckpointWriter, steps: () => Promise<number>) {
  let isWritten = false;
  const written = writer.finish().finally(() => {
    isWritten = true;
  });
  const began = performance.now();
  const beside: number[] = [];
  while (!isWritten) {
    beside.push(await steps());
  }
  await written;
  return { upload: performance.now() - began, stepBeside: beside.reduce((sum, each) => sum + each, 0) / beside.length };
}
