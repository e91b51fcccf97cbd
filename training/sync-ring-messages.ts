/*
 * Between a thread that waits and the one that has the sockets. The waiting thread can read nothing but shared memory:
 *
 *   control, Int32:   | state | rank that was lost |
 *   numbers, Float32: the vector, replaced by the sum; in state FAILED a JSON text, its length in bytes first (u32)
 *
 * It sets ASKED and posts the vector's length; the other one sets any other state and wakes it.
 */
export const CONTROL = { state: 0, lost: 1, length: 2 } as const;

export const STATE = { idle: 0, asked: 1, done: 2, lost: 3, failed: 4, closed: 5 } as const;

export interface SyncRingStart {
  readonly rank: number;
  readonly worldSize: number;
  readonly generation: number;
  readonly key: Uint8Array;
  readonly host: string;
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
