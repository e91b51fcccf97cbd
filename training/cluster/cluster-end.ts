import type { CheckpointStore } from '../../contract/checkpoint/checkpoint-store.ts';
import type { SummaryWriter } from '../../contract/summary/summary.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Phases } from '../checkpoint/phases.ts';
import type { UnfinishedTraining } from '../fit/unfinished-training.ts';
import type { OnNotice } from '../process/notices.ts';
import { beforeProgramEnds } from '../process/program-end.ts';

export interface ClusterEndParts {
  /** The application ID, or '' for a standalone program. */
  readonly jobId: string;
  /**
   * The checkpoint store in which this process records that training has ended, or null if another process does so or there are no
   * checkpoints.
   */
  readonly store: CheckpointStore | null;
  readonly writer: SummaryWriter | null;
  readonly phases: Phases;
  readonly unfinished: UnfinishedTraining;
  readonly onNotice: OnNotice;
  /** Called when the program exits with code 0 and has not failed. */
  readonly onExit: () => void;
}

/**
 * Completes this process's work when its program ends or calls `cluster.close()`. Writes the remaining summaries, and records in the checkpoint store that no more checkpoints follow.
 */
export class ClusterEnd {
  readonly #parts: ClusterEndParts;
  readonly #onExit: (code: number) => void;
  readonly #stopLastWork: () => void;
  #isMarked = false;
  #isClosed = false;
  /** Whether an exit with code 0 ends the training. */
  #isLast = true;

  constructor(parts: ClusterEndParts) {
    const { store, writer, onExit } = parts;
    this.#parts = parts;
    // `onExit` closes the cluster, because the other ranks would otherwise treat a rank that exits with code 0 as lost.
    this.#onExit = (code) => {
      if (code === 0 && !this.#refuseExit()) {
        if (this.#isLast) {
          this.#markNow();
        }
        onExit();
      }
    };
    process.once('exit', this.#onExit);
    const hasWork = writer !== null || store !== null;
    this.#stopLastWork = hasWork
      ? beforeProgramEnds({
          isDue: () => writer !== null && !writer.isEmpty,
          finish: (succeeded) => this.finish(succeeded),
          finishNow: () => writer?.finishNow(),
        })
      : () => {};
  }

  /**
   * Turns an exit with code 0 in the middle of `fit` into a failure, so that the other ranks treat this rank as lost. Returns true and sets
   * the exit code to 1 in this case. A standalone program may exit at any time.
   */
  #refuseExit(): boolean {
    const { unfinished, jobId, onNotice } = this.#parts;
    const { place } = unfinished;
    if (this.#isClosed || place === null || jobId === '') {
      return false;
    }
    const what = `the program exited with code 0 before training was complete (${place}), so the task fails`;
    onNotice(`${what}: set model.stopTraining = true to end training early, or call cluster.close() before process.exit(0)`);
    process.exitCode = 1;
    return true;
  }

  /** Completes the work. Must be called while the process can still await promises. */
  async finish(succeeded: boolean): Promise<void> {
    const { writer } = this.#parts;
    if (succeeded) {
      writer?.endSession(true);
    }
    await Promise.all([writer?.finish(), succeeded ? this.#mark() : null]);
  }

  /** Completes the work on purpose. If the process exits before the promise resolves, `#onExit` and the last work complete it. */
  async close(): Promise<void> {
    if (this.#isClosed) {
      return;
    }
    this.#isClosed = true;
    const { phases, unfinished, writer } = this.#parts;
    // Closing the cluster in the middle of `fit` ends training on purpose, so it is recorded as the end of training. After a failed phase,
    // nothing is recorded, because the next generation continues training.
    this.#isLast = phases.running === null || unfinished.place !== null;
    await this.finish(this.#isLast);
    process.removeListener('exit', this.#onExit);
    this.#stopLastWork();
    writer?.finishNow();
  }

  async #mark(): Promise<void> {
    try {
      await this.#storeToMark?.marks.setEnd(this.#parts.jobId);
      this.#isMarked = true;
    } catch (error) {
      this.#parts.onNotice(
        `evaluators may keep waiting for checkpoints, because the end of training could not be recorded: ${messageOf(error)}`,
      );
    }
  }

  #markNow(): void {
    this.#isMarked = this.#storeToMark?.marks.setEndNow(this.#parts.jobId) ?? this.#isMarked;
  }

  /** The checkpoint store in which this process must still record that training has ended, or null if there is nothing to record. */
  get #storeToMark(): CheckpointStore | null {
    const { store, phases } = this.#parts;
    return phases.count > 0 && !this.#isMarked ? store : null;
  }
}
