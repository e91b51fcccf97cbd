import { isDamage } from '../checkpoint/checkpoint-store.ts';
import type { CheckpointPlan } from './strategy.ts';

export interface FinalCheckpoint {
  readonly checkpoints: CheckpointPlan | null;
  readonly applicationId: string;
  readonly generation: number;
}

/**
 * Returns true if the final checkpoint is complete or not needed. The final checkpoint is complete if training had ended before this run
 * began, or if an earlier process of this rank wrote it in this generation. Do not rewrite a complete final checkpoint: during the rewrite,
 * the folder would have none.
 * @param ended the step at which training had ended before this run began; null if it had not ended.
 */
export async function hasFinalCheckpoint(own: FinalCheckpoint, step: number, ended: number | null): Promise<boolean> {
  const { checkpoints, applicationId, generation } = own;
  if (checkpoints === null || checkpoints.phase.isEmpty(step)) {
    return true;
  }
  try {
    const { position, manifest } = await checkpoints.store.openCheckpoint(step);
    const isOurs = manifest.applicationId === applicationId && (step === ended || manifest.generation === generation);
    return position.final && isOurs;
  } catch (error) {
    if (isDamage(error)) {
      return false;
    }
    throw error;
  }
}
