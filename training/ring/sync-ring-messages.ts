import type { WireSecurity } from '../../conf/job.ts';

/*
 * The protocol between the calling thread, which blocks, and the worker thread, which owns the sockets. A blocked thread cannot receive
 * messages, so the worker thread answers through shared memory:
 *
 *   control, Int32:   | state | rank of the lost neighbour |
 *   numbers, Float32: the input and output vector. In state `failed`: the error as JSON, preceded by its length in bytes (u32).
 *
 * To request a sum, the calling thread sets the state to `asked` and posts the vector's length. The worker thread sets the resulting state
 * and wakes the calling thread.
 */
export const CONTROL = { state: 0, lost: 1, length: 2 } as const;

export const STATE = { idle: 0, asked: 1, done: 2, lost: 3, failed: 4, closed: 5 } as const;

export interface SyncRingStart {
  readonly rank: number;
  readonly worldSize: number;
  readonly generation: number;
  readonly key: Uint8Array;
  readonly security: WireSecurity;
  readonly host: string;
  readonly names: readonly string[];
  readonly timeouts: { readonly joinMs: number; readonly silenceMs: number; readonly graceMs: number };
  readonly control: SharedArrayBuffer;
  readonly numbers: SharedArrayBuffer;
}

export type ToSyncRing =
  | { readonly type: 'join'; readonly addresses: readonly { readonly host: string; readonly port: number }[] }
  | { readonly type: 'sum'; readonly length: number }
  | { readonly type: 'close' };

export type FromSyncRing =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'joined' }
  | { readonly type: 'lost'; readonly rank: number; readonly cause: string }
  | { readonly type: 'failed'; readonly code: string; readonly message: string };
