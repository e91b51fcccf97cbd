import { messageOf } from '../../platform/errors.ts';
import type { CheckpointStore } from '../checkpoint/checkpoint-store.ts';
import type { Phases } from '../checkpoint/phases.ts';
import type { UnfinishedTraining } from '../fit/unfinished-training.ts';
import type { OnNotice } from '../process/notices.ts';
import { beforeProgramEnds } from '../process/program-end.ts';
import type { SummaryWriter } from '../summary/summary.ts';

export interface ClusterEndParts {
  /** Empty for a standalone program. */
  readonly applicationId: string;
  /**
   * The store in which this process records the end of training; null if another process records the end, or if there are no checkpoints.
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
 * Completes this process's work when its program ends or calls `cluster.end()` or `cluster.close()`. Writes the remaining summaries and
 * records the end of training. The job writes no checkpoints after that.
 */
export class ClusterEnd {
  readonly #parts: ClusterEndParts;
  readonly #onExit: (code: number) => void;
  readonly #stopLastWork: () => void;
  #isMarked = false;

  constructor(parts: ClusterEndParts) {
    const { store, writer, onExit } = parts;
    this.#parts = parts;
    // `onExit` closes the cluster. Otherwise, the other ranks would treat this rank as lost although it exits with code 0.
    this.#onExit = (code) => {
      if (code === 0 && !this.#refuseExit()) {
        this.#markNow();
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
   * Turns an exit with code 0 in the middle of `fit` into a failure. Within a job, sets the exit code to 1 and returns true, and the other
   * ranks treat this rank as lost. To end training on purpose, a program closes the cluster first.
   */
  #refuseExit(): boolean {
    const { unfinished, applicationId, onNotice } = this.#parts;
    const { place } = unfinished;
    if (place === null || applicationId === '') {
      return false;
    }
    const what = `the program exited with code 0 before training was complete (${place}), so the task fails`;
    onNotice(`${what}: set model.stopTraining = true to end training early, or call cluster.close() before process.exit(0)`);
    process.exitCode = 1;
    return true;
  }

  /** Completes the work. Call it while the process can still await promises. */
  async finish(succeeded: boolean): Promise<void> {
    const { writer } = this.#parts;
    if (succeeded) {
      writer?.endSession(true);
    }
    await Promise.all([writer?.finish(), succeeded ? this.#mark() : null]);
  }

  close(): void {
    const { phases, unfinished, writer } = this.#parts;
    // A program that closes the cluster in the middle of `fit` ends training on purpose. After a failed phase, training has not ended,
    // because the next generation continues it.
    if (phases.running === null || unfinished.place !== null) {
      this.#markNow();
    }
    process.removeListener('exit', this.#onExit);
    this.#stopLastWork();
    writer?.finishNow();
  }

  async #mark(): Promise<void> {
    try {
      await this.#storeToMark?.marks.setEnd(this.#parts.applicationId);
      this.#isMarked = true;
    } catch (error) {
      this.#parts.onNotice(
        `evaluators may keep waiting for checkpoints, because the end of training could not be recorded: ${messageOf(error)}`,
      );
    }
  }

  #markNow(): void {
    this.#isMarked = this.#storeToMark?.marks.setEndNow(this.#parts.applicationId) ?? this.#isMarked;
  }

  /** The store in which this process must still record the end of training; null if there is none. */
  get #storeToMark(): CheckpointStore | null {
    const { store, phases } = this.#parts;
    return phases.count > 0 && !this.#isMarked ? store : null;
  }
}
