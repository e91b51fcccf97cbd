import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { messageOf, TonyError } from '../conf/errors.ts';
import type { Origin, Snapshot, StoredTensor } from './checkpoint-format.ts';
import type { FromCheckpointThread, ToCheckpointThread } from './checkpoint-thread-messages.ts';

interface Waiting {
  readonly tensors: readonly StoredTensor[];
  resolve(uri: string): void;
  reject(error: TonyError): void;
}

/**
 * Writes checkpoints in a thread of its own: a step of training holds up its thread for as long as it computes, and an upload that waited for
 * the end of a step before each of its pieces and each call of the NameNode would take ten times as long.
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

  /** One for all of the process, begun when it is first asked for; null where its program is not there. It keeps no process from ending. */
  static ofProcess(): CheckpointThread | null {
    CheckpointThread.#ofProcess ??= CheckpointThread.open(new URL('checkpoint-thread.mjs', import.meta.url));
    return CheckpointThread.#ofProcess;
  }

  static open(program: URL): CheckpointThread | null {
    return existsSync(fileURLToPath(program)) ? new CheckpointThread(new Worker(program, { execArgv: [] })) : null;
  }

  /** Whether their memory can be handed to another thread: nobody else may have any of it. */
  static canTake(tensors: readonly StoredTensor[]): boolean {
    const buffers = new Set(tensors.map(({ bytes }) => bytes.buffer));
    return (
      buffers.size === tensors.length &&
      tensors.every(({ bytes: { buffer, byteLength } }) => buffer instanceof ArrayBuffer && buffer.byteLength === byteLength)
    );
  }

  /**
   * As `CheckpointStore.save`, with the storage that the process has by itself. Until it is settled the tensors have no bytes here; then they
   * have them again, for another try.
   */
  async save(dir: string, { position, tensors }: Snapshot, { applicationId, generation }: Origin): Promise<string> {
    if (this.#failure !== null) {
      throw this.#failure;
    }
    const id = ++this.#asked;
    return await new Promise((resolve, reject) => {
      this.#waiting.set(id, { tensors, resolve, reject });
      const parts = tensors.map(({ bytes, ...tensor }) => ({ ...tensor, buffer: bytes.buffer as ArrayBuffer }));
      const message: ToCheckpointThread = { id, dir, origin: { applicationId, generation }, position, tensors: parts };
      this.#worker.ref();
      this.#worker.postMessage(
        message,
        parts.map(({ buffer }) => buffer),
      );
    });
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

  /** What it had in its hands is lost, and nothing else can be written. */
  #end(why: string): void {
    this.#failure ??= new TonyError('INTERNAL', `the thread that writes checkpoints has failed: ${why}`);
    for (const { reject } of this.#waiting.values()) {
      reject(this.#failure);
    }
    this.#waiting.clear();
  }

  /** Whatever it is at is given up. */
  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}
