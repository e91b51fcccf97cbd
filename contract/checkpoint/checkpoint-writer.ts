import { type Backoff, backoffMs, jittered, pause } from '../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { TrainingSnapshot } from './checkpoint-format.ts';
import type { CheckpointStore } from './checkpoint-store.ts';

export interface WriterOptions {
  readonly jobId: string;
  readonly generation: number;
  readonly keep: number;
  /** Steps of the checkpoints that the writer never removes. */
  readonly kept?: ReadonlySet<number>;
  readonly onSaved: (step: number) => void;
  /**
   * Called when writes begin to fail, when they succeed again, and when old checkpoints cannot be removed. Messages with the same `about`
   * concern the same problem.
   */
  readonly onTrouble: (message: string, about: string) => void;
  readonly retry?: Backoff;
  /** Time in ms for which `finish` retries a failed write. Default: 10 minutes. */
  readonly finishMs?: number;
}

const WRITING = 'checkpoints';
const PRUNING = 'old checkpoints';
const DEFAULT_RETRY = { firstMs: 1000, mostMs: 30_000 };
const DEFAULT_FINISH_MS = 600_000;

/** A checkpoint for `CheckpointWriter` to write. If `write` fails, the writer calls it again. */
export interface Save {
  readonly step: number;
  /** True if training has diverged. The writer then keeps all older checkpoints. */
  readonly isBad?: boolean;
  write(): Promise<unknown>;
}

/**
 * Writes snapshots in the background, one at a time, so training does not wait for storage. While a snapshot is being written, one more can
 * wait. A newer snapshot replaces the waiting one.
 */
export class CheckpointWriter {
  readonly #store: CheckpointStore;
  readonly #options: WriterOptions;
  #waiting: Save | null = null;
  #work: Promise<void> | null = null;
  #failure: TonyError | null = null;
  #wake: (() => void) | null = null;
  #closing = false;
  /** Time at which writes began to fail, as a performance.now() timestamp, or null while writes succeed. */
  #failingSince: number | null = null;
  #pruneFails = false;

  constructor(store: CheckpointStore, options: WriterOptions) {
    this.#store = store;
    this.#options = options;
  }

  /**
   * Takes a snapshot and writes it in the background. Resolves once the snapshot is taken. Drops a waiting snapshot first, so at most two
   * snapshots are in memory.
   * @throws TonyError CHECKPOINT_FENCED if the generation has been retired, or the error with which an earlier write finally failed.
   */
  async record(take: () => Promise<TrainingSnapshot>): Promise<void> {
    this.#check();
    this.#waiting = null;
    this.offer(await take());
  }

  /**
   * Writes a snapshot in the background.
   * @throws the same errors as `record`.
   */
  offer(snapshot: TrainingSnapshot): void {
    const { step, diverged = false } = snapshot.position;
    this.offerSave({ step, isBad: diverged, write: () => this.#store.save(snapshot, this.#options) });
  }

  /**
   * Writes a checkpoint in the background by calling `save.write`.
   * @throws the same errors as `record`.
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

  /**
   * Waits until the newest snapshot has been written.
   * @throws TonyError CHECKPOINT_FAILED, or the same errors as `record`.
   */
  async finish(): Promise<void> {
    const deadline = setTimeout(() => this.giveUp(), this.#options.finishMs ?? DEFAULT_FINISH_MS);
    try {
      await this.#work;
    } finally {
      clearTimeout(deadline);
    }
    this.#check();
  }

  /** Stops retrying failed writes, so that a finished program can exit. */
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

  async #save({ step, isBad = false, write }: Save): Promise<void> {
    for (let failures = 1; ; failures++) {
      try {
        await write();
        this.#options.onSaved(step);
        this.#recovered(step);
        if (!isBad) {
          await this.#prune(step);
        }
        return;
      } catch (error) {
        const message = `checkpoint step-${step} could not be written: ${messageOf(error)}`;
        if (this.#closing || isFinal(error)) {
          this.#failure = isFinal(error) ? error : new TonyError('CHECKPOINT_FAILED', message, { cause: error });
          return;
        }
        this.#failed(message);
      }
      if (this.#waiting === null) {
        await this.#pause(jittered(backoffMs(failures, this.#options.retry ?? DEFAULT_RETRY)));
      }
      if (this.#waiting !== null) {
        return;
      }
    }
  }

  #failed(message: string): void {
    if (this.#failingSince !== null) {
      return;
    }
    this.#failingSince = performance.now();
    this.#options.onTrouble(`${message}; training continues, and checkpoints are retried until one succeeds`, WRITING);
  }

  #recovered(step: number): void {
    if (this.#failingSince === null) {
      return;
    }
    const seconds = Math.ceil((performance.now() - this.#failingSince) / 1000);
    this.#failingSince = null;
    this.#options.onTrouble(`checkpoints succeed again, starting with step-${step}, after ${seconds} s of failures`, WRITING);
  }

  async #prune(step: number): Promise<void> {
    try {
      await this.#store.prune(step, this.#options.keep, this.#options.kept);
      this.#pruneFails = false;
    } catch (error) {
      if (!this.#pruneFails) {
        this.#options.onTrouble(`old checkpoints could not be removed: ${messageOf(error)}`, PRUNING);
      }
      this.#pruneFails = true;
    }
  }

  /** Waits before a retry. Returns early if a newer snapshot arrives or `giveUp` is called. */
  async #pause(ms: number): Promise<void> {
    if (this.#closing) {
      return;
    }
    const waking = new AbortController();
    this.#wake = () => waking.abort();
    await pause(ms, waking.signal);
    this.#wake = null;
  }
}

function isFinal(error: unknown): error is TonyError {
  return error instanceof TonyError && ['CHECKPOINT_FENCED', 'ACCESS_DENIED', 'INTERNAL'].includes(error.code);
}
