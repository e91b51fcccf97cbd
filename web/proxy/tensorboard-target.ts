import type { Duplex } from 'node:stream';
import type { TensorBoardStatus } from '../../conf/status/status.ts';

export interface TensorBoardTarget {
  status(): TensorBoardStatus;
  /**
   * Opens a connection to TensorBoard's HTTP server; the returned stream may still be connecting. While TensorBoard is unavailable,
   * `connect` is null or throws.
   */
  readonly connect: (() => Duplex) | null;
}
