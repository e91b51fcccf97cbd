import type { TrainingPosition } from '../../../contract/checkpoint/checkpoint-format.ts';
import { beginOptimizer, optimizerTensors, RANK_0, requireReadable } from '../../model/optimizer-state.ts';
import type { StepPart, StepValues } from '../../model/step-part.ts';
import { capture, restoreNamed } from '../../model/stored-tensors.ts';
import { movingAveragesOf } from '../../model/trainables.ts';
import { captureState, restoreState } from '../../model/training-state.ts';
import { type Peers, peersOfRing } from '../../ring/peers.ts';
import type { Ring } from '../../ring/ring.ts';
import { firstText, gatherTexts } from '../../ring/ring-bytes.ts';
import type { Wire } from '../../ring/ring-exchange.ts';
import type { StrategyContext, StrategyFactory, TrainingStrategy } from '../strategy.ts';
import type { KeptState } from '../strategy-checkpoints.ts';
import { LayerState } from './layer-state.ts';
import { RingCheckpoints } from './ring-checkpoints.ts';
import { Stepper } from './step.ts';
import { SyncBatchNorm } from './sync-batch-norm.ts';
import { verifyEqual } from './verify-equal.ts';

/**
 * Creates strategies for synchronous training.
 * @param wire the number format in which gradients are sent. Sums are always computed in float32.
 */
export function allReduceStrategy(ring: Ring, wire: Wire = 'float32'): StrategyFactory {
  return { rank: ring.rank, worldSize: ring.worldSize, open: (context) => new AllReduceStrategy(ring, wire, context) };
}

/** Trains synchronously. All ranks apply the averaged gradients, so their weights stay equal. Rank 0 reads and writes the checkpoints. */
class AllReduceStrategy implements TrainingStrategy {
  readonly rank: number;
  readonly worldSize: number;
  readonly peers: Peers;
  readonly #ring: Ring;
  readonly #context: StrategyContext;
  readonly #stepper: Stepper;
  readonly #state: KeptState;
  readonly #checkpoints: RingCheckpoints;
  readonly #layerState: LayerState;
  #batchNorm: SyncBatchNorm | null = null;
  #hasStepped = false;

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
      onEmpty: () => this.#batchNorm?.runWithoutExamples(model.trainable),
      alsoEqual: () => (this.#batchNorm === null ? [] : movingAveragesOf(model.model)),
    });
    this.#layerState = new LayerState(tf, ring, [model.model], model.moving, context.onNotice);
    this.#state = {
      get iterations() {
        return model.optimizer.iterations;
      },
      capture: async () => [...(await captureState(tf, model)), ...(await capture(tf, context.kept()))],
      restore: async (tensors, iterations, from) => {
        await restoreState(tf, model, tensors, iterations, from);
        restoreNamed(tf, context.kept(), tensors, from.where);
      },
      requireReadable: () => requireReadable(tf, model.optimizer, model.trainable),
    };
    this.#checkpoints = new RingCheckpoints(ring, context, this.#state);
  }

  get withoutGradient(): readonly string[] {
    return this.#stepper.withoutGradient;
  }

  get reasonOfSlowSteps(): string | null {
    return this.#stepper.reasonOfSlowSteps;
  }

  async begin(): Promise<TrainingPosition | null> {
    beginOptimizer(this.#context.model.optimizer);
    const position = await this.#checkpoints.begin();
    await this.#installBatchNorm();
    return position;
  }

  async #installBatchNorm(): Promise<void> {
    const { tf, model, stepOptions, onNotice } = this.#context;
    if (stepOptions.syncBatchNorm === false) {
      return;
    }
    const installed = await SyncBatchNorm.install(tf, this.#ring, model.model);
    if (typeof installed === 'string') {
      onNotice(`each rank normalises batches by its own examples only, because ${installed}`);
    } else {
      this.#batchNorm = installed;
    }
  }

  async step(parts: readonly StepPart[], signals: Float32Array): Promise<StepValues> {
    const values = await this.#stepper.run(parts, signals);
    if (!this.#hasStepped) {
      this.#hasStepped = true;
      // A custom optimizer creates its slots in its first step.
      this.#checkpoints.requireReadable();
    }
    return values;
  }

  async agree(signals: Float32Array): Promise<void> {
    await this.#ring.allReduce(signals);
  }

  async shareReason(own: string): Promise<string> {
    return firstText(await gatherTexts(this.#ring, own));
  }

  /**
   * Averages the layers' state over the ranks, and verifies that all other state is equal. Rank 0 then writes the checkpoint in the
   * background.
   */
  async checkpoint(position: TrainingPosition): Promise<void> {
    await this.#settle(position.step);
    await this.#checkpoints.record(position);
  }

  async stored(): Promise<void> {
    await this.#checkpoints.stored();
  }

  async #settle(step: number): Promise<void> {
    await this.#layerState.agree();
    await this.#stepper.verifyIfWanted();
    await this.#verifySlots(step);
  }

  /**
   * Verifies that the optimizer slots are equal on all ranks. A difference in a slot changes the weights only in the next step, so it is
   * not enough to compare the weights.
   */
  async #verifySlots(step: number): Promise<void> {
    const { tf, model, stepOptions } = this.#context;
    if (this.worldSize > 1 && stepOptions.verifyEverySteps !== 0) {
      const slots = optimizerTensors(tf, model.optimizer, model.trainable).map(({ name, variable }) => {
        return { name, dtype: variable.dtype, dataSync: () => variable.dataSync() };
      });
      await verifyEqual(this.#ring, slots, `at the checkpoint of step ${step}`);
    }
  }

  async afterStep(): Promise<void> {}

  async hold(): Promise<() => Promise<void>> {
    const { iterations } = this.#context.model.optimizer;
    const tensors = await this.#state.capture();
    return async () => await this.#state.restore(tensors, iterations, RANK_0);
  }

  async finish(position: TrainingPosition, afterwards: Promise<void>): Promise<void> {
    await this.#settle(position.step);
    await this.#checkpoints.finish(position, afterwards);
  }

  /** Frees the memory used by native kernels. Variables and the optimizer keep their state. */
  dispose(): void {
    this.#checkpoints.dispose();
    this.#batchNorm?.uninstall();
    this.#batchNorm = null;
    this.#stepper.dispose();
  }
}
