import { type CheckpointStore, isDamage } from '../checkpoint/checkpoint-store.ts';

export interface FinalCheckpoint {
  readonly applicationId: string;
  readonly generation: number;
  /** The final step, if training had already ended before this run began; otherwise null. */
  readonly ended: number | null;
}

/**
 * Whether the final checkpoint of this step already exists. Either training had ended before this run began, or an earlier process of this
 * rank wrote it in this generation. Rewriting it would leave the folder without a final checkpoint for a moment.
 */
export async function hasFinalCheckpoint(store: CheckpointStore, step: number, final: FinalCheckpoint): Promise<boolean> {
  try {
    const { position, manifest } = await store.openCheckpoint(step);
    const isOurs = manifest.applicationId === final.applicationId && (step === final.ended || manifest.generation === final.generation);
    return position.final && isOurs;
  } catch (error) {
    if (isDamage(error)) {
      return false;
    }
    throw error;
  }
}
