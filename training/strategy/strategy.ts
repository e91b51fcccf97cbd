import type * as tfjs from '@tensorflow/tfjs';
import type { TrainingPosition } from '../../contract/checkpoint/checkpoint-format.ts';
import type { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import type { Report } from '../../contract/process/task-context.ts';
import type { Phase } from '../checkpoint/phases.ts';
import type { CompiledModel } from '../model/compiled-model.ts';
import type { StepPart, StepValues } from '../model/step-part.ts';
import type { NamedVariable } from '../model/stored-tensors.ts';
import type { Peers } from '../ring/peers.ts';
import type { Placement } from './placement.ts';
import type { StepClock } from './profile-clock.ts';
import type { StepOptions } from './step-options.ts';

/** Where a run stores checkpoints, how often it takes one, and how many it keeps. */
export interface CheckpointPlan {
  readonly store: CheckpointStore;
  readonly phase: Phase;
  /** The number of steps between checkpoints, or null if only the time counts. With 0, there are no checkpoints between the steps. */
  readonly everySteps: number | null;
  /** The time between checkpoints in ms, or null if only the steps count. Only rank 0 measures the time. */
  readonly everyMs?: number | null;
  readonly keep: number;
}

export interface StrategyContext {
  readonly tf: typeof tfjs;
  readonly model: CompiledModel;
  readonly jobId: string;
  readonly generation: number;
  /** The checkpoint plan, or null if the run does not write checkpoints. */
  readonly checkpoints: CheckpointPlan | null;
  readonly stepOptions: StepOptions;
  /** The program's own variables, with their names in checkpoints. With parameter servers, the chief's values count. */
  readonly kept: () => readonly NamedVariable[];
  /** The user's function that assigns variables to parameter servers. */
  readonly placement?: Placement;
  /** The number of signals. Signals are numbers that each step exchanges in addition to gradients, loss and metrics. */
  readonly signals: number;
  /** Measures how long each phase takes. The strategy enters the phases `compute`, `exchange` and `update`. */
  readonly clock: StepClock;
  readonly report: (report: Report) => void;
  readonly onNotice: (message: string, about?: string) => void;
}

export interface StrategyFactory {
  readonly rank: number;
  readonly worldSize: number;
  open(context: StrategyContext): TrainingStrategy;
}

/** Keeps the weights of a training run consistent across the workers. Every worker must make the same calls in the same order. */
export interface TrainingStrategy {
  readonly rank: number;
  readonly worldSize: number;
  /** The job's workers, for the data pipeline. */
  readonly peers: Peers;
  /**
   * Restores the phase's newest intact checkpoint on every worker. If there is no checkpoint, copies rank 0's weights and optimizer slots
   * to every worker. Must be called once, before the first step.
   * @returns the position to resume from, or null for a fresh start. `final` is true if this application has already completed the phase.
   * @throws TonyError CHECKPOINT_MISMATCH.
   */
  begin(): Promise<TrainingPosition | null>;
  /**
   * Takes one optimizer step at the optimizer's current learning rate.
   * @param parts this worker's micro-batches.
   * @param signals replaced with their sums over all workers that step together. If workers step independently, only the first signal is
   *   replaced, with the number of workers that have sent a positive value in any step so far.
   * @param endReason why the first signal asks to end training. Only workers that step independently send it.
   * @returns the means over all examples of all workers that step together. The caller must read or dispose them.
   */
  step(parts: readonly StepPart[], signals: Float32Array, endReason: string | null): Promise<StepValues>;
  /** Combines `signals` as `step` does, but does not take a step. All workers that step together must call this method. */
  agree(signals: Float32Array, endReason: string | null): Promise<void>;
  /**
   * Called on every worker after training has ended early.
   * @param own this worker's reason, or the empty string if it has none.
   * @returns the reason of the first worker that has one: by rank or, if workers step independently, by time.
   */
  shareReason(own: string): Promise<string>;
  /** Must be called after each step. If workers step independently, `position` must not wait for other workers. */
  afterStep(position: () => Promise<TrainingPosition>): Promise<void>;
  /**
   * Copies this worker's state.
   * @returns a function that restores the copy.
   */
  hold(): Promise<() => Promise<void>>;
  /** Captures a checkpoint of the current state and writes it in the background. Workers that step together pass the same `position`. */
  checkpoint(position: TrainingPosition): Promise<void>;
  /** Resolves when the newest checkpoint is stored. Only the worker that writes checkpoints waits. @throws TonyError CHECKPOINT_FAILED. */
  stored(): Promise<void>;
  /**
   * Ends training on all workers. Resolves once the weights are equal, the final checkpoint (at `position`) is stored and `afterwards` has
   * resolved.
   * @throws TonyError CHECKPOINT_FAILED.
   */
  finish(position: TrainingPosition, afterwards: Promise<void>): Promise<void>;
  /** The names of the trained variables that had no gradient in the first step. Empty before that step. */
  readonly withoutGradient: readonly string[];
  /** The reason why steps are slow, for example missing native kernels, or null if steps run at full speed. */
  readonly reasonOfSlowSteps: string | null;
  dispose(): void;
}
