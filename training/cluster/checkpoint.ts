import type * as tfjs from '@tensorflow/tfjs';
import type { StoredCheckpoint } from '../checkpoint/checkpoint-store.ts';
import { weightsOf } from '../model/compiled-model.ts';
import { restoreWeights } from '../model/training-state.ts';

/** A checkpoint that `Cluster.checkpoints` yields to an evaluator. */
export interface Checkpoint {
  readonly uri: string;
  readonly step: number;
  readonly epoch: number;
  /** The phase that wrote the checkpoint: `fit-1` or `loop-1`, for example, or the `name` passed to `fit` or `loop`. */
  readonly phase: string;
  /** True for the last checkpoint of its phase. */
  readonly final: boolean;
  /**
   * Copies the weights in the checkpoint to a model with the same layers.
   * @param name the model's name in the loop, if the loop has several models.
   * @throws TonyError CHECKPOINT_MISFIT when the weights do not fit the model.
   */
  restore(model: tfjs.LayersModel, name?: string): void;
}

export function checkpointOf(tf: typeof tfjs, stored: StoredCheckpoint): Checkpoint {
  const { step, epoch, phase, final } = stored.position;
  return {
    uri: stored.uri,
    step,
    epoch,
    phase: phase.name,
    final,
    restore: (model, name) => restoreWeights(tf, weightsOf(model), stored.tensors, stored.uri, name),
  };
}
