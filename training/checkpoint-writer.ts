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

/** A checkpoint to write; `write` is called again when it has failed. */
export interface Save {
  readonly step: number;
  write(): Promise<unknown>;
}

/**
 * Writes snapshots in the background, one at a time: training does not wait for storage. While one is being written (or tried again
 * and again, since the NameNode is away), one more may wait; a newer one takes its place. So at most two are held in memory.
 */
export class CheckpointWriter {
  readonly #store: CheckpointStore;
  readonly #options: WriterOptions;
  #waiting: Save | null = null;
  #work: Promise<void> | null = null;
  #failure: TonyError | null = null;
  #wake: (() => void) | null = null;
  #closing = false;

  constructor(store: CheckpointStore, options: WriterOptions) {
    this.#store = store;
    this.#options = options;
  }

  /**
   * Takes a snapshot and writes it; resolves when it is taken. What waits is dropped before: a third one is never in memory.
   * @throws TonyError CHECKPOINT_FENCED once a newer generation has taken over, or what storage refuses for good.
   */
  async record(take: () => Promise<Snapshot>): Promise<void> {
    this.#check();
    this.#waiting = null;
    this.offer(await take());
  }

  /** @throws as `record` does. */
  offer(snapshot: Snapshot): void {
    this.offerSave({ step: snapshot.position.step, write: () => this.#store.save(snapshot, this.#options) });
  }

  /**
   * For a checkpoint that several processes write.
   * @throws as `record` does.
   */
  offerSave(save: Save): void {
    this.#check();
    this.#waiting = save;
    this.#wake?.();
    this.#work ??= this.#run();
  }

  #check(): void {
    if (this.#failure !== null) {
      throw this.#failure;
    }
  }

  /** Resolves when the newest snapshot is written. */
  async finish(): Promise<void> {
    const deadline = setTimeout(() => this.giveUp(), this.#options.finishMs ?? DEFAULT_FINISH_MS);
    try {
      await this.#work;
    } finally {
      clearTimeout(deadline);
    }
    if (this.#failure !== null) {
      throw this.#failure;
    }
  }

  /** What fails from now on is not tried again: a run that is over keeps no program from ending. */
  giveUp(): void {
    this.#closing = true;
    this.#wake?.();
  }

  async #run(): Promise<void> {
    while (this.#waiting !== null && this.#failure === null) {
      const save = this.#waiting;
      this.#waiting = null;
      await this.#save(save);
    }
    this.#work = null;
  }

  async #save({ step, write }: Save): Promise<void> {
    const { firstMs, mostMs } = this.#options.retry ?? DEFAULT_RETRY;
    for (let delay = firstMs; ; delay = Math.min(delay * 2, mostMs)) {
      try {
        await write();
        this.#options.onSaved(step);
        await this.#prune(step);
        return;
      } catch (error) {
        const message = `checkpoint step-${step} could not be written: ${messageOf(error)}`;
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
  return error instanceof TonyError && ['CHECKPOINT_FENCED', 'ACCESS_DENIED', 'INTERNAL'].includes(error.code);
}
