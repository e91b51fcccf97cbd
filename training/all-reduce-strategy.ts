import { TonyError } from '../conf/errors.ts';
import type { StoredTensor, TrainingPosition } from './checkpoint-format.ts';
import type { CheckpointWriter } from './checkpoint-writer.ts';
import { openCheckpointWriter } from './open-checkpoint-writer.ts';
import { type Peers, peersOfRing } from './peers.ts';
import type { Ring } from './ring.ts';
import { broadcastBytes } from './ring-bytes.ts';
import type { Wire } from './ring-exchange.ts';
import { settledOrAfter } from './settled-or-after.ts';
import { Stepper } from './step.ts';
import type { StepPart, StepValues } from './step-part.ts';
import type { StrategyContext, StrategyFactory, TrainingStrategy } from './strategy.ts';
import { SyncBatchNorm } from './sync-batch-norm.ts';
import { captureState, optimizerVariables, restoreState } from './training-state.ts';
import { verifyEqual } from './verify-equal.ts';

/** How often the ranks tell each other that the last checkpoint is still being written. */
const FINISH_ROUND_MS = 2000;

/** @param wire how gradients travel; their sums are of float32 in any case. */
export function allReduceStrategy(ring: Ring, wire: Wire = 'float32'): StrategyFactory {
  return { rank: ring.rank, worldSize: ring.worldSize, open: (context) => new AllReduceStrategy(ring, wire, context) };
}

/** Synchronous training: the averaged gradients are applied everywhere, so the ranks' weights stay equal. Rank 0 keeps the checkpoints. */
class AllReduceStrategy implements TrainingStrategy {
  readonly rank: number;
  readonly worldSize: number;
  readonly peers: Peers;
  readonly #ring: Ring;
  readonly #context: StrategyContext;
  readonly #stepper: Stepper;
  readonly #writer: CheckpointWriter | null;
  /** The step of this job's final checkpoint, where training was over before this run began; rank 0 knows. */
  #ended: number | null = null;
  #batchNorm: SyncBatchNorm | null = null;

  constructor(ring: Ring, wire: Wire, context: StrategyContext) {
    this.rank = ring.rank;
    this.worldSize = ring.worldSize;
    this.peers = peersOfRing(ring);
    this.#ring = ring;
    this.#context = context;
    const { tf, model, stepOptions, clock, signals } = context;
    const numbers = { metrics: model.metricNames.length - 1, signals };
    this.#stepper = new Stepper(tf, ring, model.optimizer, model.trainable, {
      ...stepOptions,
      ...numbers,
      ...{ wire, clock },
      onEmpty: () => this.#batchNorm?.keepCompany(model.trainable),
      // Each rank's own, unless they move together.
      alsoEqual: () => (this.#batchNorm === null ? [] : model.moving),
    });
    this.#writer = context.checkpoints === null || this.rank !== 0 ? null : openCheckpointWriter(context, context.checkpoints);
  }

  get reasonOfSlowSteps(): string | null {
    return this.#stepper.reasonOfSlowSteps;
  }

  async begin(): Promise<TrainingPosition | null> {
    const { tf, model, applicationId, generation, checkpoints, onNotice } = this.#context;
    let position: TrainingPosition | null = null;
    if (this.rank === 0 && checkpoints !== null) {
      await checkpoints.store.retireOlderThan({ applicationId, generation });
      const found = await checkpoints.store.newest(onNotice);
      if (found !== null) {
        // Before the others are told: a checkpoint of another model is to be rank 0's error alone.
        restoreState(tf, model, found.tensors, found.position.iterations, found.uri);
        onNotice(`training goes on from ${found.uri}, step ${found.position.step}`);
        position = found.position;
        this.#ended = position.final && found.manifest.applicationId === applicationId ? position.step : null;
      }
    }
    const shared = await this.#share(position);
    await this.#joinBatchNorm();
    return shared;
  }

  async #joinBatchNorm(): Promise<void> {
    const { tf, model, stepOptions, onNotice } = this.#context;
    if (stepOptions.syncBatchNorm === false) {
      return;
    }
    const installed = await SyncBatchNorm.install(tf, this.#ring, model.model);
    if (typeof installed === 'string') {
      onNotice(`batch normalisation goes by the examples of each rank: ${installed}`);
    } else {
      this.#batchNorm = installed;
    }
  }

  async #share(position: TrainingPosition | null): Promise<TrainingPosition | null> {
    const { tf, model } = this.#context;
    if (this.worldSize === 1) {
      return position;
    }
    const tensors = this.rank === 0 ? await captureState(tf, model) : [];
    const places = tensors.map(({ name, dtype, shape, bytes }) => ({ name, dtype, shape, length: bytes.length }));
    const head = this.rank === 0 ? Buffer.from(JSON.stringify({ position, places, iterations: model.optimizer.iterations })) : null;
    const shared = JSON.parse(Buffer.from(await broadcastBytes(this.#ring, head)).toString('utf8')) as {
      position: TrainingPosition | null;
      places: (Omit<StoredTensor, 'bytes'> & { length: number })[];
      iterations: number;
    };
    const all = await broadcastBytes(this.#ring, this.rank === 0 ? Buffer.concat(tensors.map(({ bytes }) => bytes)) : null);
    if (this.rank > 0) {
      let at = 0;
      const received = shared.places.map(({ length, ...tensor }) => {
        at += length;
        return { ...tensor, bytes: all.subarray(at - length, at) };
      });
      restoreState(tf, model, received, shared.iterations, 'what rank 0 trains');
    }
    return shared.position;
  }

  async step(parts: readonly StepPart[], signals: Float32Array): Promise<StepValues> {
    return await this.#stepper.run(parts, signals);
  }

  async agree(signals: Float32Array): Promise<void> {
    await this.#ring.allReduce(signals);
  }

  /** Moving averages are made equal first, and the rest is compared. Rank 0 writes, in the background. */
  async checkpoint(position: TrainingPosition): Promise<void> {
    await this.#settle(position.step);
    await this.#record(position);
  }

  async #settle(step: number): Promise<void> {
    await this.#averageMoving();
    await this.#stepper.verifyIfWanted();
    await this.#verifySlots(step);
  }

  /** Slots that differ show in the weights one step later; but what is written here is to be what every rank has. */
  async #verifySlots(step: number): Promise<void> {
    const { tf, model, stepOptions } = this.#context;
    if (this.worldSize > 1 && stepOptions.verifyEverySteps !== 0) {
      const slots = optimizerVariables(tf, model.optimizer).map(({ name, variable }) => {
        return { name, dtype: variable.dtype, dataSync: () => variable.dataSync() };
      });
      await verifyEqual(this.#ring, slots, `at the checkpoint of step ${step}`);
    }
  }

  async #record(position: TrainingPosition): Promise<void> {
    const { tf, model } = this.#context;
    await this.#writer?.record(async () => ({ position, tensors: await captureState(tf, model) }));
  }

  async afterStep(): Promise<void> {}

  async finish(position: TrainingPosition, afterwards: Promise<void>): Promise<void> {
    await this.#settle(position.step);
    if (this.#context.checkpoints === null) {
      await afterwards;
      return;
    }
    let state: 'writing' | 'done' | 'failed' = 'writing';
    let failure: unknown = null;
    // An end that was there already is not put in its own place: for a moment there would be none.
    if (this.#ended !== position.step) {
      await this.#record(position);
    }
    const writing = Promise.all([this.#writer?.finish(), afterwards]).then(
      () => {
        state = 'done';
      },
      (error) => {
        state = 'failed';
        failure = error;
      },
    );
    if (this.worldSize === 1) {
      await writing;
    }
    while (this.worldSize > 1) {
      if (this.rank === 0) {
        await settledOrAfter(writing, FINISH_ROUND_MS);
      }
      const news = Float32Array.of({ writing: 0, done: 1, failed: 2 }[state as 'writing' | 'done' | 'failed']);
      await this.#ring.broadcast(news);
      if (news[0] !== 0) {
        if (news[0] === 2 && this.rank !== 0) {
          throw new TonyError('CHECKPOINT_FAILED', 'rank 0 could not write the last checkpoint');
        }
        break;
      }
    }
    if (failure !== null) {
      throw failure;
    }
  }

  async #averageMoving(): Promise<void> {
    const { tf, model } = this.#context;
    const { moving } = model;
    if (this.worldSize === 1 || moving.length === 0 || this.#batchNorm !== null) {
      return;
    }
    const vector = this.#ring.vector(moving.reduce((sum, { size }) => sum + size, 0));
    let at = 0;
    for (const variable of moving) {
      vector.set(variable.dataSync() as Float32Array, at);
      at += variable.size;
    }
    await this.#ring.allReduce(vector, 'mean');
    at = 0;
    for (const variable of moving) {
      const from = at;
      tf.tidy(() => variable.assign(tf.tensor(vector.slice(from, from + variable.size), variable.shape, 'float32')));
      at += variable.size;
    }
  }

  /** Frees what native kernels hold; variables and the optimizer stay as they are. */
  dispose(): void {
    this.#writer?.giveUp();
    this.#batchNorm?.uninstall();
    this.#batchNorm = null;
    this.#stepper.dispose();
  }
}
