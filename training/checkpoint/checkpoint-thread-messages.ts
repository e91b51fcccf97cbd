import type { ErrorCode } from '../../platform/errors.ts';
import type { Origin, StoredTensor, TrainingPosition } from './checkpoint-format.ts';

/**
 * Asks the worker thread to write a checkpoint. The tensors' buffers are transferred to the thread and back with the response, without
 * copies.
 */
export interface ToCheckpointThread {
  readonly id: number;
  readonly dir: string;
  readonly origin: Origin;
  readonly position: TrainingPosition;
  readonly tensors: readonly (Omit<StoredTensor, 'bytes'> & { readonly buffer: ArrayBuffer })[];
}

/**
 * Asks the worker thread to mark the end of the program. The calling thread blocks and cannot receive a message. The worker thread
 * therefore sets the first number of `done` (1 for success, -1 for failure) and wakes the calling thread.
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
