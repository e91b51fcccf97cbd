import type * as tfjs from '@tensorflow/tfjs';
import { type LoadedCheckpoint, loadedCheckpoint, type StoredCheckpoint } from '../../contract/checkpoint/checkpoint-store.ts';
import { weightsOf } from '../model/compiled-model.ts';
import { restoreWeights } from '../model/training-state.ts';

/** A checkpoint yielded to an evaluator by `Cluster.checkpoints`. */
export interface Checkpoint extends LoadedCheckpoint {
  /**
   * Copies the checkpoint's weights to a model with the same layers.
   * @param name the model's name in the training loop. Only needed if the loop trains several models.
   * @throws TonyError CHECKPOINT_MISMATCH if the weights do not match the model.
   */
  load(model: tfjs.LayersModel, name?: string): void;
}

export function checkpointOf(tf: typeof tfjs, stored: StoredCheckpoint): Checkpoint {
  return {
    ...loadedCheckpoint(stored),
    load: (model, name) => restoreWeights(tf, weightsOf(model), stored.tensors, stored.uri, name),
  };
}
