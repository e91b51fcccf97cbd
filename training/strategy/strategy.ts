import type * as tfjs from '@tensorflow/tfjs';
import type { TrainingPosition } from '../checkpoint/checkpoint-format.ts';
import type { CheckpointStore } from '../checkpoint/checkpoint-store.ts';
import type { Phase } from '../checkpoint/phases.ts';
import type { CompiledModel } from '../model/compiled-model.ts';
import type { StepPart, StepValues } from '../model/step-part.ts';
import type { Report } from '../process/task-context.ts';
import type { Peers } from '../ring/peers.ts';
import type { Placement } from './placement.ts';
import type { StepClock } from './profile-clock.ts';
import type { StepOptions } from './step-options.ts';

/** Defines where a run stores its checkpoints, how often it takes a checkpoint and how many it keeps. */
export interface CheckpointPlan {
  readonly store: CheckpointStore;
  /** The phase to which the run's checkpoints belong. */
  readonly phase: Phase;
  readonly everySteps: number;
  readonly keep: number;
}

/** The parts of a training run that its strategy needs. */
export interface StrategyContext {
  readonly tf: typeof tfjs;
  readonly model: CompiledModel;
  readonly applicationId: string;
  readonly generation: number;
  /** null if the run neither reads nor writes checkpoints. */
  readonly checkpoints: CheckpointPlan | null;
  readonly stepOptions: StepOptions;
  /** The user's assignment of variables to parameter servers. */
  readonly placement?: Placement;
  /** The number of values that each step exchanges with the other workers in addition to gradients, loss and metrics. */
  readonly signals: number;
  /** Measures the time of each phase. The strategy switches the clock to `compute`, `exchange` and `update`. */
  readonly clock: StepClock;
  readonly report: (report: Report) => void;
  readonly onNotice: (message: string, about?: string) => void;
}

/** Creates the strategy with which the workers of a job agree on the weights. */
export interface StrategyFactory {
  readonly rank: number;
  readonly worldSize: number;
  open(context: StrategyContext): TrainingStrategy;
}

/** Keeps the weights of one training run consistent across the workers. Every worker makes the same calls in the same order. */
export interface TrainingStrategy {
  readonly rank: number;
  readonly worldSize: number;
  /** The workers among which the data pipeline shards its input, and whether they take each step together. */
  readonly peers: Peers;
  /**
   * Gives every worker the weights and optimizer slots of the phase's newest intact checkpoint; without a checkpoint, those of rank 0.
   * Called once, before the first step.
   * @returns the position to resume from, with `final` if this application has already completed the phase; null for a fresh start.
   * @throws TonyError CHECKPOINT_MISFIT.
   */
  begin(): Promise<TrainingPosition | null>;
  /**
   * Takes one optimizer step at the optimizer's current learning rate.
   * @param parts this worker's micro-batches.
   * @param signals replaced with their sums over all workers that step together. If workers step independently, the first signal is
   *   replaced with the number of workers that have sent a value above 0 in any step so far, and the other signals keep their values.
   * @returns the means over all examples of all workers that step together. The caller must read or dispose them.
   */
  step(parts: readonly StepPart[], signals: Float32Array): Promise<StepValues>;
  /** Combines `signals` as `step` does, without taking a step. All workers that step together must call it. */
  agree(signals: Float32Array): Promise<void>;
  /** Called after each step. If workers step independently, `position` resolves without waiting for other workers. */
  afterStep(position: () => Promise<TrainingPosition>): Promise<void>;
  /** Captures a checkpoint of the current state and writes it in the background. Workers that step together pass the same `position`. */
  checkpoint(position: TrainingPosition): Promise<void>;
  /**
   * Ends training on all workers. Resolves once the weights are equal, the final checkpoint (at `position`) is stored and `afterwards` has
   * resolved.
   * @throws TonyError CHECKPOINT_FAILED.
   */
  finish(position: TrainingPosition, afterwards: Promise<void>): Promise<void>;
  /** The names of trained variables that received no gradient in the first step; empty before that step. */
  readonly withoutGradient: readonly string[];
  /** Why steps run slower than possible, for example without native kernels; null at full speed. */
  readonly reasonOfSlowSteps: string | null;
  dispose(): void;
}
