import type { ErrorCode } from '../../platform/errors.ts';
import type { Origin, StoredTensor, TrainingPosition } from './checkpoint-format.ts';

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
