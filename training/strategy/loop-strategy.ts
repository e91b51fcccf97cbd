import type * as tfjs from '@tensorflow/tfjs';
import type { TrainingPosition } from '../checkpoint/checkpoint-format.ts';
import type { Peers } from '../ring/peers.ts';
import type { CustomStepOptions } from './custom-steps.ts';
import type { LoopState } from './loop-state.ts';
import type { CheckpointContext } from './restore-newest.ts';

/** Runs a custom training loop across the workers of a job. Every worker makes the same calls in the same order. */
export interface LoopStrategy {
  /** The workers among which the data pipeline shards its input, and whether they take each step together. */
  readonly peers: Peers;
  /**
   * Gives every worker the variables and the optimizer state of the phase's newest intact checkpoint; without a checkpoint, those of rank
   * 0. Called once, before the first step.
   * @returns the position to resume from, with `final` if this application has already completed the phase; null for a fresh start.
   * @throws TonyError CHECKPOINT_MISFIT.
   */
  begin(): Promise<TrainingPosition | null>;
  /** See TrainingLoop.step. */
  step(loss: () => tfjs.Scalar, optimizer: tfjs.Optimizer, options: CustomStepOptions): Promise<number>;
  /**
   * Finds out whether any worker wants to end the loop or has an order to store a checkpoint. Workers that step together get the same
   * result.
   * @param end this worker's reason to end the loop; null to continue.
   * @returns `end`: the reason of one worker that wants to end the loop; null if all continue. `checkpoint`: whether any worker has an
   *   order; always false if workers step independently, because they take checkpoints only at predetermined steps.
   */
  agree(end: string | null, checkpoint: boolean): Promise<{ readonly end: string | null; readonly checkpoint: boolean }>;
  /** Called after each iteration. If workers step independently, `position` resolves without waiting for other workers. */
  afterStep(position: () => Promise<TrainingPosition>): Promise<void>;
  /** Captures a checkpoint of the current state and writes it in the background. */
  checkpoint(position: () => Promise<TrainingPosition>): Promise<void>;
  /**
   * Ends the loop on all workers. Resolves once the variables are equal, the final checkpoint is stored and `afterwards` has resolved.
   * @throws TonyError CHECKPOINT_FAILED.
   */
  finish(position: () => Promise<TrainingPosition>, afterwards: Promise<void>): Promise<void>;
  dispose(): void;
}

/** The parts of a custom loop that its strategy needs. */
export interface LoopContext extends CheckpointContext {
  readonly tf: typeof tfjs;
  readonly state: LoopState;
}
