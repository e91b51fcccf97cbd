import type { Duplex } from 'node:stream';
import type { TensorBoardStatus } from '../conf/status.ts';

/** The TensorBoard that stands at the root of a job's site. */
export interface TensorBoardTarget {
  status(): TensorBoardStatus;
  /** Makes a connection to TensorBoard's HTTP server, which may still be under way; null (or it throws) while there is none. */
  readonly connect: (() => Duplex) | null;
}

/** A job without TensorBoard: its own page stands at the root. */
export const NO_TENSORBOARD: TensorBoardTarget = { status: () => ({ state: 'off', message: '' }), connect: null };
