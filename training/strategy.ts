import type * as tfjs from '@tensorflow/tfjs';
import type { TrainingPosition } from './checkpoint-format.ts';
import type { CheckpointStore } from './checkpoint-store.ts';
import type { CompiledModel } from './compiled-model.ts';
import type { Peers } from './peers.ts';
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
   * One step of the optimizer.
   * @param compute the loss of this worker's examples; null when it has none in this step (weight 0).
   * @param weight this worker's share of the step's examples.
   * @param readExtras numbers to be averaged with the loss, read after `compute` has run.
   * @returns the mean loss, and the means of the extras.
   */
  step(compute: (() => tfjs.Scalar) | null, weight: number, readExtras: () => readonly number[]): Promise<number[]>;
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
