import type * as tfjs from '@tensorflow/tfjs';
import type { TrainingPosition } from '../../contract/checkpoint/checkpoint-format.ts';
import type { Peers } from '../ring/peers.ts';
import type { CustomStepOptions } from './custom-step-options.ts';
import type { LoopState } from './loop-state.ts';
import type { CheckpointContext } from './strategy-checkpoints.ts';

/** Runs a custom training loop on all workers of a job. Every worker must make the same calls in the same order. */
export interface LoopStrategy {
  /** The job's workers, for the data pipeline. */
  readonly peers: Peers;
  /**
   * Restores the phase's newest intact checkpoint on every worker. If there is no checkpoint, copies rank 0's variables and optimizer state
   * to every worker. Must be called once, before the first step.
   * @returns the position to resume from, or null for a fresh start. `final` is true if this application has already completed the phase.
   * @throws TonyError CHECKPOINT_MISMATCH.
   */
  begin(): Promise<TrainingPosition | null>;
  /** See TrainingLoop.step. */
  step(loss: () => tfjs.Scalar, optimizer: tfjs.Optimizer, options: CustomStepOptions): Promise<number>;
  /**
   * Checks whether any worker wants to end the loop or asks for a checkpoint. Workers that step together get the same
   * result.
   * @param end this worker's reason to end the loop, or null to continue.
   * @returns `end`: the reason given by a worker that ends the loop, or null if all workers continue. `checkpoint`: true if any worker
   *   asks for a checkpoint. With parameter servers, true on the chief if the chief itself asks and takes checkpoints alone. With staleness
   *   0, always false, because all workers take part in a checkpoint and meet only at predetermined steps.
   */
  agree(end: string | null, checkpoint: boolean): Promise<{ readonly end: string | null; readonly checkpoint: boolean }>;
  /** Must be called after each iteration. If workers step independently, `position` must not wait for other workers. */
  afterStep(position: () => Promise<TrainingPosition>): Promise<void>;
  /** Captures a checkpoint of the current state and writes it in the background. */
  checkpoint(position: () => Promise<TrainingPosition>): Promise<void>;
  /** See TrainingStrategy.stored. */
  stored(): Promise<void>;
  /**
   * Ends the loop on all workers. Resolves once the variables are equal, the final checkpoint is stored and `afterwards` has resolved.
   * @throws TonyError CHECKPOINT_FAILED.
   */
  finish(position: () => Promise<TrainingPosition>, afterwards: Promise<void>): Promise<void>;
  dispose(): void;
}

export interface LoopContext extends CheckpointContext {
  readonly tf: typeof tfjs;
  readonly state: LoopState;
}
