/** The progress of a `fit` call or a loop. */
export interface TrainingProgress {
  /** The number of steps taken in all phases of the program. */
  readonly step: number;
  readonly epoch: number;
  /** The number of epochs to train, or null if training is limited by a number of steps. */
  readonly epochs: number | null;
}

interface Running {
  /**
   * Records the progress. Call this function with the progress after each step, and with null after the last checkpoint has been written.
   */
  at(progress: TrainingProgress | null): void;
  end(): void;
}

/** Tracks `fit` calls and loops that have begun but have neither completed nor failed. */
export class UnfinishedTraining {
  readonly #calls = new Set<{ progress: TrainingProgress | null }>();

  begin(): Running {
    const call: { progress: TrainingProgress | null } = { progress: null };
    this.#calls.add(call);
    return {
      at: (progress) => {
        if (progress === null) {
          this.#calls.delete(call);
        } else {
          call.progress = progress;
        }
      },
      end: () => this.#calls.delete(call),
    };
  }

  /**
   * Runs `train`, which counts as unfinished until it completes or fails.
   * @param train calls `onProgress` with the progress after each step, and with null after its last checkpoint has been written.
   */
  async during<T>(train: (onProgress: (progress: TrainingProgress | null) => void) => Promise<T>): Promise<T> {
    const call = this.begin();
    try {
      return await train(call.at);
    } finally {
      call.end();
    }
  }

  /** A description of the first unfinished training run, for example `step 120, in epoch 3 of 10`, or null if all runs have finished. */
  get place(): string | null {
    const [call] = this.#calls;
    if (call === undefined) {
      return null;
    }
    if (call.progress === null) {
      return 'its first step';
    }
    const { step, epoch, epochs } = call.progress;
    return epochs === null ? `step ${step}` : `step ${step}, in epoch ${epoch + 1} of ${epochs}`;
  }
}
