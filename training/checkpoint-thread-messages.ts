import type { ErrorCode } from '../conf/errors.ts';
import type { Origin, StoredTensor, TrainingPosition } from './checkpoint-format.ts';

/** A checkpoint to be written by the other thread. The buffers go along, and come back with the answer: they are never copied. */
export interface ToCheckpointThread {
  readonly id: number;
  /** URI of the folder of checkpoints. */
  readonly dir: string;
  readonly origin: Origin;
  readonly position: TrainingPosition;
  readonly tensors: readonly (Omit<StoredTensor, 'bytes'> & { readonly buffer: ArrayBuffer })[];
}

export interface FromCheckpointThread {
  readonly id: number;
  readonly buffers: readonly ArrayBuffer[];
  readonly outcome: { readonly uri: string } | { readonly code: ErrorCode; readonly message: string; readonly hint: string };
}
