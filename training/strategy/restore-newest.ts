import type { StoredTensor, TrainingPosition } from '../checkpoint/checkpoint-format.ts';
import type { OpenedCheckpoint } from '../checkpoint/checkpoint-store.ts';
import type { StrategyContext } from './strategy.ts';

/** A checkpoint's content, apart from the position in training. */
export interface KeptState {
  /** The optimizer's step counter, or 0 if the tensors contain the counter. */
  readonly iterations: number;
  capture(): Promise<StoredTensor[]>;
  /** @throws TonyError CHECKPOINT_MISFIT. */
  restore(tensors: readonly StoredTensor[], iterations: number, where: string): void;
}

export type CheckpointContext = Pick<StrategyContext, 'applicationId' | 'generation' | 'checkpoints' | 'report' | 'onNotice'>;

/**
 * Restores the phase's newest intact checkpoint. Call it only on the rank that reads and writes checkpoints.
 * @returns the position to resume from, or null for a fresh start. `final` is true if this application has already completed the phase.
 * @throws TonyError CHECKPOINT_MISFIT.
 */
export async function restoreNewest(context: CheckpointContext, state: KeptState): Promise<TrainingPosition | null> {
  const { applicationId, generation, checkpoints, onNotice } = context;
  if (checkpoints === null) {
    return null;
  }
  const { store, phase } = checkpoints;
  await store.retireOlderThan({ applicationId, generation });
  const restore = async (opened: OpenedCheckpoint) =>
    state.restore(await store.readTensors(opened), opened.position.iterations, opened.uri);
  const found = await phase.newest(store, restore, onNotice);
  if (found !== null) {
    onNotice(phase.noticeOf(found));
  }
  if (!found?.position.final) {
    await store.marks.clearEnd();
  }
  return found?.position ?? null;
}
