import type { Duplex } from 'node:stream';
import type { TensorBoardStatus } from '../conf/status.ts';

/** The TensorBoard at the root of a job's pages. */
export interface TensorBoardTarget {
  status(): TensorBoardStatus;
  /**
   * Opens a connection to TensorBoard's HTTP server; it may still be connecting when returned. Null, or throws, while TensorBoard is
   * unavailable.
   */
  readonly connect: (() => Duplex) | null;
}

/** A job without TensorBoard: the job's own page is at the root. */
export const NO_TENSORBOARD: TensorBoardTarget = { status: () => ({ state: 'off', message: '' }), connect: null };
