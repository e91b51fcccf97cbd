import type { Duplex } from 'node:stream';
import type { TensorBoardStatus } from '../../conf/status.ts';
import { dialTls } from '../../web/tensorboard/secure-channel.ts';
import type { TensorBoardTarget } from '../../web/tensorboard-target.ts';

export interface LiveTensorBoardOptions {
  readonly status: () => TensorBoardStatus;
  /** Address of the TensorBoard task; null while it is not running. */
  readonly endpoint: () => { readonly host: string; readonly port: number } | null;
  /** The job's ring key. */
  readonly ringKey: Uint8Array;
}

/** Connects the pages to a running job's TensorBoard, which runs in its own container on any node. */
export class LiveTensorBoard implements TensorBoardTarget {
  readonly #options: LiveTensorBoardOptions;

  constructor(options: LiveTensorBoardOptions) {
    this.#options = options;
  }

  status(): TensorBoardStatus {
    return this.#options.status();
  }

  get connect(): (() => Duplex) | null {
    const { endpoint, ringKey } = this.#options;
    const place = this.status().state === 'off' ? null : endpoint();
    return place === null ? null : () => dialTls({ ...place, ringKey });
  }
}
