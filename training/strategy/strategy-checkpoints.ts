import type { StoredTensor, TrainingPosition } from '../../contract/checkpoint/checkpoint-format.ts';
import { isDamage, type OpenedCheckpoint } from '../../contract/checkpoint/checkpoint-store.ts';
import { CheckpointWriter } from '../../contract/checkpoint/checkpoint-writer.ts';
import type { StateSource } from '../model/optimizer-state.ts';
import type { CheckpointPlan, StrategyContext } from './strategy.ts';

/**
 * Returns true if the run does not need a final checkpoint, or if the final checkpoint already exists. It exists if training had ended
 * before this run began, or if an earlier process of this rank wrote it in this generation. The caller must not write the checkpoint again,
 * because the folder would briefly contain no final checkpoint.
 * @param ended the step at which training had ended before this run began, or null if it had not ended.
 */
export async function hasFinalCheckpoint(
  own: Pick<StrategyContext, 'checkpoints' | 'jobId' | 'generation'>,
  step: number,
  ended: number | null,
): Promise<boolean> {
  const { checkpoints, jobId, generation } = own;
  if (checkpoints === null || checkpoints.phase.isEmpty(step)) {
    return true;
  }
  try {
    const { position, manifest } = await checkpoints.store.openCheckpoint(step);
    const isOurs = manifest.jobId === jobId && (step === ended || manifest.generation === generation);
    return position.final && isOurs;
  } catch (error) {
    if (isDamage(error)) {
      return false;
    }
    throw error;
  }
}

/** Opens a run's checkpoint writer. Call it only on the rank that writes checkpoints. */
export function openCheckpointWriter(
  context: Pick<StrategyContext, 'jobId' | 'generation' | 'report' | 'onNotice'>,
  { store, keep, phase }: CheckpointPlan,
): CheckpointWriter {
  const { jobId, generation, report, onNotice } = context;
  return new CheckpointWriter(store, {
    jobId,
    generation,
    keep,
    kept: phase.kept,
    onSaved: (step) => report({ type: 'checkpoint', step }),
    onTrouble: onNotice,
  });
}

/** A checkpoint's content, apart from the position in training. */
export interface KeptState {
  /** The optimizer's step counter, or 0 if the tensors contain the counter. */
  readonly iterations: number;
  capture(): Promise<StoredTensor[]>;
  /** @throws TonyError CHECKPOINT_MISMATCH. */
  restore(tensors: readonly StoredTensor[], iterations: number, from: StateSource): Promise<void>;
  /** Verifies that checkpoints can contain the whole state. @throws TonyError MODEL_INVALID. */
  requireReadable(): void;
}

export type CheckpointContext = Pick<StrategyContext, 'jobId' | 'generation' | 'checkpoints' | 'report' | 'onNotice'>;

/**
 * Restores the phase's newest intact checkpoint. Call it only on the rank that reads and writes checkpoints.
 * @returns the position to resume from, or null for a fresh start. `final` is true if this application has already completed the phase.
 * @throws TonyError CHECKPOINT_MISMATCH.
 */
export async function restoreNewest(context: CheckpointContext, state: KeptState): Promise<TrainingPosition | null> {
  const { jobId, generation, checkpoints, onNotice } = context;
  if (checkpoints === null) {
    return null;
  }
  const { store, phase } = checkpoints;
  await store.retireOlderThan({ jobId, generation });
  const restore = async (opened: OpenedCheckpoint) =>
    await state.restore(await store.readTensors(opened), opened.position.iterations, { where: opened.uri, isShared: false });
  const found = await phase.newest(store, restore, onNotice);
  if (found !== null) {
    onNotice(phase.noticeOf(found));
  }
  if (!found?.position.final) {
    await store.marks.clearEnd();
  }
  return found?.position ?? null;
}
