import { FrameHeader } from '../../encoding/frame-header.ts';

/**
 * The messages between a worker and a parameter server, in both directions, little-endian:
 *
 *   +------------+----------+--------+--------------------+-------------------+
 *   | "TNYP" u32 | kind u32 | id u32 | headBytes u32      | bodyBytes u32     |   20 bytes
 *   +------------+----------+--------+--------------------+-------------------+
 *   | head: JSON, UTF-8                                                       |   headBytes, at most MAX_HEAD_BYTES
 *   +-------------------------------------------------------------------------+
 *   | body: float32 numbers, or the bytes of tensors one after the other      |   bodyBytes
 *   +-------------------------------------------------------------------------+
 *
 * A worker sends requests. The server answers each request with a frame of the same id; answers may arrive in any order. `held` means that
 * an answer is delayed. The receiver uses the head to decide where to store the body and how long it may be, before it allocates memory for
 * the body.
 */
export interface Frame {
  readonly kind: FrameKind;
  /** The id of the request. */
  readonly id: number;
  readonly headBytes: number;
  readonly bodyBytes: number;
}

const KINDS = ['ask', 'answer', 'refusal', 'held', 'bye'] as const;

/** `refusal`: an error in place of an answer. `bye`: the worker has ended and sends no more requests. */
export type FrameKind = (typeof KINDS)[number];

const HEADER = new FrameHeader('TNYP', KINDS, 3);

export const FRAME_BYTES = HEADER.bytes;
export const MAX_HEAD_BYTES = 16 * 1024 * 1024;

export function encodeFrame(kind: FrameKind, id: number, head: Uint8Array, bodyBytes: number): Buffer {
  return Buffer.concat([HEADER.encode(kind, id >>> 0, head.length, bodyBytes), head]);
}

/** Decodes a header. @returns the frame, or the reason why the bytes are not a frame. */
export function decodeFrame(bytes: Uint8Array): Frame | { readonly refusal: string } {
  const header = HEADER.decode(bytes);
  if (header === null) {
    return { refusal: 'sent data that is not a frame' };
  }
  const [id = 0, headBytes = 0, bodyBytes = 0] = header.fields;
  if (headBytes > MAX_HEAD_BYTES) {
    return { refusal: `sent a frame with a head of ${headBytes} bytes, more than the maximum of ${MAX_HEAD_BYTES}` };
  }
  return { kind: header.kind, id, headBytes, bodyBytes };
}
