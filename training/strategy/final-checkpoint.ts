import { isDamage } from '../checkpoint/checkpoint-store.ts';
import type { StrategyContext } from './strategy.ts';

/**
 * Returns true if the run must not write a final checkpoint, because the checkpoint already exists or is not needed. It exists in two
 * cases: training had ended before this run began, or an earlier process of this rank wrote it in this generation. Rewriting an existing
 * final checkpoint would leave the folder without one for a moment.
 * @param ended the step at which training had ended before this run began; null if it had not ended.
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
