/** The progress of a call of `fit` or of a loop. */
export interface TrainingProgress {
  /** Steps taken, counted through all phases of the program. */
  readonly step: number;
  /** The current epoch, from 0. */
  readonly epoch: number;
  /** null if the limit is a number of steps. */
  readonly epochs: number | null;
}

/** A started call of `fit` or a started loop. */
interface Running {
  /** Call after each step, and with null once the last checkpoint is written. */
  at(progress: TrainingProgress | null): void;
  end(): void;
}

/** The calls of `fit` and the loops that have started and neither ended nor failed. */
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

  /** @param train receives a function to call after each step, and with null once its last checkpoint is written */
  async during<T>(train: (onProgress: (progress: TrainingProgress | null) => void) => Promise<T>): Promise<T> {
    const call = this.begin();
    try {
      return await train(call.at);
    } finally {
      call.end();
    }
  }

  /** For example `step 120, in epoch 3 of 10`; null if no training is unfinished. */
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
