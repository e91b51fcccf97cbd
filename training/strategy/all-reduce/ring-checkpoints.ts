import type { TrainingPosition } from '../../../contract/checkpoint/checkpoint-format.ts';
import type { CheckpointWriter } from '../../../contract/checkpoint/checkpoint-writer.ts';
import { withTimeout } from '../../../platform/async/deadline.ts';
import { TonyError } from '../../../platform/errors.ts';
import { broadcastTensors } from '../../model/broadcast-tensors.ts';
import { RANK_0 } from '../../model/optimizer-state.ts';
import type { Ring } from '../../ring/ring.ts';
import { type CheckpointContext, type KeptState, openCheckpointWriter, restoreNewest } from '../strategy-checkpoints.ts';

/** The interval in ms at which rank 0 tells the other ranks whether the final checkpoint has been stored. */
const FINISH_ROUND_MS = 2000;

/**
 * Checkpoints for ranks that step together. All ranks hold the same state, so only rank 0 reads and writes checkpoints. Rank 0 broadcasts
 * the state that it has read.
 */
export class RingCheckpoints {
  readonly #ring: Ring;
  readonly #context: CheckpointContext;
  readonly #state: KeptState;
  readonly #writer: CheckpointWriter | null;
  /** The step of the final checkpoint if training had ended before this run began, otherwise null. Set only on rank 0. */
  #ended: number | null = null;

  constructor(ring: Ring, context: CheckpointContext, state: KeptState) {
    this.#ring = ring;
    this.#context = context;
    this.#state = state;
    const { checkpoints } = context;
    this.#writer = checkpoints === null || ring.rank !== 0 ? null : openCheckpointWriter(context, checkpoints);
  }

  /**
   * Restores the phase's newest intact checkpoint on every rank. If there is no checkpoint, copies rank 0's state to every rank.
   * @returns the position to resume from, or null for a fresh start.
   */
  async begin(): Promise<TrainingPosition | null> {
    this.requireReadable();
    // Rank 0 restores before it broadcasts, so only rank 0 fails if the checkpoint does not match the model.
    const position = this.#ring.rank === 0 ? await restoreNewest(this.#context, this.#state) : null;
    this.#ended = position?.final ? position.step : null;
    if (this.#ring.worldSize === 1) {
      return position;
    }
    const { iterations } = this.#state;
    const own = this.#ring.rank === 0 ? { head: { position, iterations }, tensors: await this.#state.capture() } : null;
    const { head, tensors } = await broadcastTensors(this.#ring, own);
    if (this.#ring.rank > 0) {
      await this.#state.restore(tensors, head.iterations, RANK_0);
    }
    return head.position;
  }

  /** Verifies that checkpoints, and the other ranks, can receive the whole state. @throws TonyError MODEL_INVALID. */
  requireReadable(): void {
    if (this.#context.checkpoints !== null || this.#ring.worldSize > 1) {
      this.#state.requireReadable();
    }
  }

  async record(position: TrainingPosition): Promise<void> {
    await this.#writer?.record(async () => ({ position, tensors: await this.#state.capture() }));
  }

  /** Resolves when the newest checkpoint is stored, and at once on all ranks except rank 0. @throws TonyError CHECKPOINT_FAILED. */
  async stored(): Promise<void> {
    await this.#writer?.finish();
  }

  /**
   * Resolves on every rank once the final checkpoint is stored and rank 0's `afterwards` has resolved.
   * @throws TonyError CHECKPOINT_FAILED.
   */
  async finish(position: TrainingPosition, afterwards: Promise<void>): Promise<void> {
    const { checkpoints } = this.#context;
    if (checkpoints === null) {
      await afterwards;
      return;
    }
    // An existing final checkpoint is not written again, because the folder would briefly contain no final checkpoint.
    if (this.#ended !== position.step && !checkpoints.phase.isEmpty(position.step)) {
      await this.record(position);
    }
    let state: 'writing' | 'done' | 'failed' = 'writing';
    let failure: unknown = null;
    const writing = Promise.all([this.stored(), afterwards]).then(
      () => {
        state = 'done';
      },
      (error) => {
        state = 'failed';
        failure = error;
      },
    );
    if (this.#ring.worldSize === 1) {
      await writing;
    }
    while (this.#ring.worldSize > 1) {
      if (this.#ring.rank === 0) {
        await withTimeout(writing, FINISH_ROUND_MS, () => {});
      }
      const status = Float32Array.of({ writing: 0, done: 1, failed: 2 }[state as 'writing' | 'done' | 'failed']);
      await this.#ring.broadcast(status);
      if (status[0] !== 0) {
        if (status[0] === 2 && this.#ring.rank !== 0) {
          throw new TonyError('CHECKPOINT_FAILED', 'rank 0 could not write the final checkpoint; its log shows the cause');
        }
        break;
      }
    }
    if (failure !== null) {
      throw failure;
    }
  }

  dispose(): void {
    this.#writer?.giveUp();
  }
}
