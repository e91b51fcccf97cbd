import type { Duplex } from 'node:stream';
import type { TensorBoardStatus } from '../conf/status/status.ts';

export interface TensorBoardTarget {
  status(): TensorBoardStatus;
  /**
   * Opens a connection to TensorBoard's HTTP server; the returned stream may still be connecting. While TensorBoard is unavailable,
   * `connect` is null or throws.
   */
  readonly connect: (() => Duplex) | null;
}

/** The target of a job without TensorBoard. The job's own page is at the root. */
export const NO_TENSORBOARD: TensorBoardTarget = { status: () => ({ state: 'off', message: '' }), connect: null };
