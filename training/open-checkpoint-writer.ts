import { CheckpointWriter } from './checkpoint-writer.ts';
import type { CheckpointPlan, StrategyContext } from './strategy.ts';

/** What a run's checkpoints are written by, on the rank that keeps them. */
export function openCheckpointWriter(context: StrategyContext, { store, keep }: CheckpointPlan): CheckpointWriter {
  const { applicationId, generation, report, onNotice } = context;
  return new CheckpointWriter(store, {
    applicationId,
    generation,
    keep,
    onSaved: (step) => report({ type: 'checkpoint', step }),
    onTrouble: onNotice,
  });
}
