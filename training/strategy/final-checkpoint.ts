import { isDamage } from '../checkpoint/checkpoint-store.ts';
import type { StrategyContext } from './strategy.ts';

/**
 * Returns true if the run does not need a final checkpoint, or if the final checkpoint already exists. It exists if training had ended
 * before this run began, or if an earlier process of this rank wrote it in this generation. The caller must not write the checkpoint again,
 * because the folder would briefly contain no final checkpoint.
 * @param ended the step at which training had ended before this run began, or null if it had not ended.
 */
export async function hasFinalCheckpoint(
  own: Pick<StrategyContext, 'checkpoints' | 'applicationId' | 'generation'>,
  step: number,
  ended: number | null,
): Promise<boolean> {
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
