import type * as tfjs from '@tensorflow/tfjs';
import type { TrainingPosition } from './checkpoint-format.ts';
import type { CheckpointStore } from './checkpoint-store.ts';
import type { CompiledModel } from './compiled-model.ts';
import type { Placement } from './parameter-server/placement.ts';
import type { Peers } from './peers.ts';
import type { StepClock } from './profile-clock.ts';
import type { StepOptions } from './step-options.ts';
import type { StepPart, StepValues } from './step-part.ts';
import type { Report } from './task-context.ts';

/** Where checkpoints are kept, and how many. */
export interface CheckpointPlan {
  readonly store: CheckpointStore;
  readonly everySteps: number;
  readonly keep: number;
}

/** What a strategy needs of the run that it serves. */
export interface StrategyContext {
  readonly tf: typeof tfjs;
  readonly model: CompiledModel;
  readonly applicationId: string;
  readonly generation: number;
  /** null: none are read or written. */
  readonly checkpoints: CheckpointPlan | null;
  readonly stepOptions: StepOptions;
  /** Which parameter server holds which variable, where the user has a say in it. */
  readonly placement?: Placement;
  /** How many numbers each step carries to the other workers beside gradients, loss and metrics. */
  readonly signals: number;
  /** The strategy tells it when it computes, exchanges and updates. */
  readonly clock: StepClock;
  readonly report: (report: Report) => void;
  readonly onNotice: (message: string) => void;
}

/** How the workers of a job agree on the weights. */
export interface StrategyFactory {
  readonly rank: number;
  readonly worldSize: number;
  open(context: StrategyContext): TrainingStrategy;
}

/** One training run's agreement on the weights; every worker makes the same calls. */
export interface TrainingStrategy {
  readonly rank: number;
  readonly worldSize: number;
  /** Those that take each step together, for whoever divides the data. */
  readonly peers: Peers;
  /**
   * Equal weights and optimizer slots everywhere: those of the newest good checkpoint, or of rank 0. Called once, before any step.
   * @returns where training stands; null at its beginning.
   * @throws TonyError CHECKPOINT_MISFIT.
   */
  begin(): Promise<TrainingPosition | null>;
  /**
   * One step of the optimizer, by the optimizer's learning rate of now.
   * @param parts this worker's micro-batches.
   * @param signals replaced by their sums over all workers that step together. Where workers do not, the first one becomes the number of
   *   workers that have given more than 0 in any step that is known of, and the others stay as they are.
   * @returns the means over the examples of all parts of all workers that step together. To be read, or disposed.
   */
  step(parts: readonly StepPart[], signals: Float32Array): Promise<StepValues>;
  /** What a step does with `signals`, outside of a step: all that step together call it. */
  agree(signals: Float32Array): Promise<void>;
  /** Called after each step. `position` needs no other worker where workers do not step together. */
  afterStep(position: () => Promise<TrainingPosition>): Promise<void>;
  /** Takes a checkpoint of now; it is written in the background. `position` is the same on all that step together. */
  checkpoint(position: TrainingPosition): Promise<void>;
  /**
   * All workers end together: with equal weights, the last checkpoint (of `position`) safe, and `afterwards` done on each.
   * @throws TonyError CHECKPOINT_FAILED.
   */
  finish(position: TrainingPosition, afterwards: Promise<void>): Promise<void>;
  /** Why steps are slower than they could be; null when they are not. */
  readonly reasonOfSlowSteps: string | null;
  dispose(): void;
}
