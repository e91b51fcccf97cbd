import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { type ErrorCode, messageOf, TonyError } from '../../platform/errors.ts';
import type { Origin, StoredTensor, TrainingPosition, TrainingSnapshot } from './checkpoint-format.ts';

/**
 * Asks the worker thread to write a checkpoint. The thread takes over the tensors' buffers and returns them in its response, so they are
 * not copied.
 */
export interface ToCheckpointThread {
  readonly id: number;
  readonly dir: string;
  readonly origin: Origin;
  readonly position: TrainingPosition;
  readonly tensors: readonly (Omit<StoredTensor, 'bytes'> & { readonly buffer: ArrayBuffer })[];
}

/**
 * Asks the worker thread to record that the program has ended. The calling thread blocks, so it cannot receive a message as the response.
 * The worker thread instead sets the first number of `done` to 1 for success or -1 for failure, and wakes the calling thread.
 */
export interface EndToMark {
  readonly endOf: string;
  readonly dir: string;
  readonly done: Int32Array<SharedArrayBuffer>;
}

export interface FromCheckpointThread {
  readonly id: number;
  readonly buffers: readonly ArrayBuffer[];
  readonly outcome: { readonly uri: string } | { readonly code: ErrorCode; readonly message: string; readonly hint: string };
}

interface Waiting {
  readonly tensors: readonly StoredTensor[];
  resolve(uri: string): void;
  reject(error: TonyError): void;
}

/**
 * Writes checkpoints in a worker thread, because each training step blocks the main thread. On the main thread, every storage call would
 * wait until a step had finished, and an upload would take ten times as long.
 */
export class CheckpointThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #asked = 0;
  #failure: TonyError | null = null;

  private constructor(worker: Worker) {
    this.#worker = worker;
    worker.on('message', (message: FromCheckpointThread) => this.#settle(message));
    worker.on('error', (error: unknown) => this.#end(messageOf(error)));
    worker.on('exit', () => this.#end('it has ended'));
    worker.unref();
  }

  static #ofProcess: CheckpointThread | null = null;

  /**
   * Returns this process's checkpoint thread, or null if the thread's program file is missing. The first call starts the thread. The thread
   * keeps the process alive only while it writes.
   */
  static ofProcess(): CheckpointThread | null {
    CheckpointThread.#ofProcess ??= CheckpointThread.open(new URL('checkpoint-thread.mjs', import.meta.url));
    return CheckpointThread.#ofProcess;
  }

  static open(program: URL): CheckpointThread | null {
    return existsSync(fileURLToPath(program)) ? new CheckpointThread(new Worker(program, { execArgv: [] })) : null;
  }

  /**
   * Returns true if the tensors can be transferred to another thread. For a transfer, each tensor must fill an ArrayBuffer that no other
   * tensor uses.
   */
  static canTake(tensors: readonly StoredTensor[]): boolean {
    const buffers = new Set(tensors.map(({ bytes }) => bytes.buffer));
    return (
      buffers.size === tensors.length &&
      tensors.every(({ bytes: { buffer, byteLength } }) => buffer instanceof ArrayBuffer && buffer.byteLength === byteLength)
    );
  }

  /**
   * Writes a checkpoint as `CheckpointStore.save` does, to the process's default storage. The tensors' bytes are inaccessible until the
   * promise settles.
   */
  async save(dir: string, { position, tensors }: TrainingSnapshot, { jobId, generation }: Origin): Promise<string> {
    if (this.#failure !== null) {
      throw this.#failure;
    }
    const id = ++this.#asked;
    return await new Promise((resolve, reject) => {
      this.#waiting.set(id, { tensors, resolve, reject });
      const parts = tensors.map(({ bytes, ...tensor }) => ({ ...tensor, buffer: bytes.buffer as ArrayBuffer }));
      const message: ToCheckpointThread = { id, dir, origin: { jobId, generation }, position, tensors: parts };
      this.#worker.ref();
      this.#worker.postMessage(
        message,
        parts.map(({ buffer }) => buffer),
      );
    });
  }

  /**
   * Records that the program has ended. Blocks the calling thread, because an exiting process cannot await a promise. Returns true if the
   * mark was written within `mostMs`.
   */
  markEndNow(dir: string, jobId: string, mostMs: number): boolean {
    if (this.#failure !== null) {
      return false;
    }
    const done = new Int32Array(new SharedArrayBuffer(4));
    this.#worker.postMessage({ endOf: jobId, dir, done } satisfies EndToMark);
    Atomics.wait(done, 0, 0, mostMs);
    return Atomics.load(done, 0) === 1;
  }

  #settle({ id, buffers, outcome }: FromCheckpointThread): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) {
      this.#worker.unref();
    }
    waiting?.tensors.forEach((tensor, index) => {
      (tensor as { bytes: Uint8Array }).bytes = new Uint8Array(buffers[index] as ArrayBuffer);
    });
    if ('code' in outcome) {
      waiting?.reject(new TonyError(outcome.code, outcome.message, outcome.hint === '' ? {} : { hint: outcome.hint }));
    } else {
      waiting?.resolve(outcome.uri);
    }
  }

  #end(why: string): void {
    this.#failure ??= new TonyError('INTERNAL', `the checkpoint thread failed: ${why}`);
    for (const { reject } of this.#waiting.values()) {
      reject(this.#failure);
    }
    this.#waiting.clear();
  }

  /** Terminates the thread and abandons unfinished writes. */
  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}
