import type { Channel } from '../../../contract/connections/channel.ts';
import { FrameHeader } from '../../../contract/encoding/frame-header.ts';

/**
 * The messages between a worker and a parameter server, in both directions, little-endian:
 *
 *   +------------+----------+--------+--------------------+-------------------+
 *   | "TNYP" u32 | kind u32 | id u32 | headBytes u32      | bodyBytes u32     |   20 bytes
 *   +------------+----------+--------+--------------------+-------------------+
 *   | head: JSON, UTF-8                                                       |   headBytes, at most MAX_HEAD_BYTES
 *   +-------------------------------------------------------------------------+
 *   | body: float32 numbers, or the concatenated bytes of tensors             |   bodyBytes
 *   +-------------------------------------------------------------------------+
 *
 * The server answers each request from a worker with a frame that has the same ID. Answers may arrive in any order. A `held` frame
 * announces that an answer will be late. The receiver checks the body's length against the head before it allocates memory for the body.
 */
export interface ServerFrame {
  readonly kind: ServerFrameKind;
  readonly id: number;
  readonly headBytes: number;
  readonly bodyBytes: number;
}

const KINDS = ['ask', 'answer', 'refusal', 'held', 'bye'] as const;

/** `refusal` contains an error instead of an answer. `bye` means that the worker has finished and will not send any more requests. */
export type ServerFrameKind = (typeof KINDS)[number];

const HEADER = new FrameHeader('TNYP', KINDS, 3);

export const FRAME_BYTES = HEADER.bytes;
const NO_HEAD = new Uint8Array(0);
export const MAX_HEAD_BYTES = 16 * 1024 * 1024;

export function encodeFrame(kind: ServerFrameKind, id: number, head: Uint8Array, bodyBytes: number): Buffer {
  return Buffer.concat([HEADER.encode(kind, id >>> 0, head.length, bodyBytes), head]);
}

/** Sends a frame. @param body sent without being copied, so the bytes must not change. */
export function sendFrame(
  channel: Channel,
  kind: ServerFrameKind,
  id: number,
  head: object | null,
  body: readonly Uint8Array[] = [],
): void {
  const bodyBytes = body.reduce((sum, { length }) => sum + length, 0);
  channel.cork();
  channel.write(encodeFrame(kind, id, head === null ? NO_HEAD : Buffer.from(JSON.stringify(head)), bodyBytes));
  for (const part of body) {
    channel.write(part);
  }
  channel.uncork();
}

/** Decodes a header. @returns the frame, or the reason why the bytes are not a frame. */
export function decodeFrame(bytes: Uint8Array): ServerFrame | { readonly refusal: string } {
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
