import { CheckpointWriter } from '../checkpoint/checkpoint-writer.ts';
import type { CheckpointPlan, StrategyContext } from './strategy.ts';

/** Opens a run's checkpoint writer. Call it only on the rank that writes checkpoints. */
export function openCheckpointWriter(
  context: Pick<StrategyContext, 'applicationId' | 'generation' | 'report' | 'onNotice'>,
  { store, keep, phase }: CheckpointPlan,
): CheckpointWriter {
  const { applicationId, generation, report, onNotice } = context;
  return new CheckpointWriter(store, {
    applicationId,
    generation,
    keep,
    kept: phase.kept,
    onSaved: (step) => report({ type: 'checkpoint', step }),
    onTrouble: onNotice,
  });
}
