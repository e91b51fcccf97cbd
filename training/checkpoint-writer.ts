import { messageOf, TonyError } from '../conf/errors.ts';
import type { Snapshot } from './checkpoint-format.ts';
import type { CheckpointStore } from './checkpoint-store.ts';

export interface WriterOptions {
  readonly applicationId: string;
  readonly generation: number;
  readonly keep: number;
  readonly onSaved: (step: number) => void;
  /** A write has failed and is tried again. */
  readonly onTrouble: (message: string) => void;
  readonly retry?: { readonly firstMs: number; readonly mostMs: number };
  /** How long `finish` tries. */
  readonly finishMs?: number;
}

const DEFAULT_RETRY = { firstMs: 1000, mostMs: 30_000 };
const DEFAULT_FINISH_MS = 600_000;

/**
 * Writes snapshots in the background, one at a time: training does not wait for storage. While one is being written (or tried again
 * and again, since the NameNode is away), one more may wait; a newer one takes its place. So at most two are held in memory.
 */
export class CheckpointWriter {
  readonly #store: CheckpointStore;
  readonly #options: WriterOptions;
  #waiting: Snapshot | null = null;
  #work: Promise<void> | null = null;
  #failure: TonyError | null = null;
  #wake: (() => void) | null = null;
  #closing = false;

  constructor(store: CheckpointStore, options: WriterOptions) {
    this.#store = store;
    this.#options = options;
  }

  /** @throws TonyError CHECKPOINT_FENCED once a newer generation has taken over, or what storage refuses for good. */
  offer(snapshot: Snapshot): void {
    if (this.#failure !== null) {
      throw this.#failure;
    }
    this.#waiting = snapshot;
    this.#wake?.();
    this.#work ??= this.#run();
  }

  /** Resolves when the newest snapshot is written. */
  async finish(): Promise<void> {
    const deadline = setTimeout(() => {
      this.#closing = true;
      this.#wake?.();
    }, this.#options.finishMs ?? DEFAULT_FINISH_MS);
    try {
      await this.#work;
    } finally {
      clearTimeout(deadline);
    }
    if (this.#failure !== null) {
      throw this.#failure;
    }
  }

  async #run(): Promise<void> {
    while (this.#waiting !== null && this.#failure === null) {
      const snapshot = this.#waiting;
      this.#waiting = null;
      await this.#save(snapshot);
    }
    this.#work = null;
  }

  async #save(snapshot: Snapshot): Promise<void> {
    const { firstMs, mostMs } = this.#options.retry ?? DEFAULT_RETRY;
    for (let delay = firstMs; ; delay = Math.min(delay * 2, mostMs)) {
      try {
        await this.#store.save(snapshot, this.#options);
        this.#options.onSaved(snapshot.position.step);
        await this.#prune(snapshot.position.step);
        return;
      } catch (error) {
        const message = `checkpoint step-${snapshot.position.step} could not be written: ${messageOf(error)}`;
        if (this.#closing || isFinal(error)) {
          this.#failure =
            error instanceof TonyError && isFinal(error) ? error : new TonyError('CHECKPOINT_FAILED', message, { cause: error });
          return;
        }
        this.#options.onTrouble(`${message}; it is tried again`);
      }
      if (this.#waiting === null) {
        await this.#pause(delay * (0.75 + Math.random() / 2));
      }
      if (this.#waiting !== null) {
        // Newer than what failed.
        return;
      }
    }
  }

  async #prune(step: number): Promise<void> {
    try {
      await this.#store.prune(step, this.#options.keep);
    } catch (error) {
      this.#options.onTrouble(`old checkpoints could not be removed: ${messageOf(error)}`);
    }
  }

  /** Ends early when a newer snapshot comes. */
  async #pause(ms: number): Promise<void> {
    if (this.#closing) {
      return;
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = null;
  }
}

/** Trying again would not help. */
function isFinal(error: unknown): boolean {
  return error instanceof TonyError && (error.code === 'CHECKPOINT_FENCED' || error.code === 'ACCESS_DENIED');
}
