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
 * A worker sends requests, and the server answers under the same id, in any order; `held` means that an answer is delayed. The receiver
 * decides from the head where a body belongs and how long it may be, before it allocates memory.
 */
export interface Frame {
  readonly kind: FrameKind;
  /** The id of the request. */
  readonly id: number;
  readonly headBytes: number;
  readonly bodyBytes: number;
}

const KINDS = ['ask', 'answer', 'refusal', 'held', 'bye'] as const;

/** `refusal`: an error as answer. `bye`: the worker has ended and sends no more requests. */
export type FrameKind = (typeof KINDS)[number];

export const FRAME_BYTES = 20;
export const MAX_HEAD_BYTES = 16 * 1024 * 1024;

const MAGIC = 0x50594e54; // "TNYP", little-endian

export function encodeFrame(kind: FrameKind, id: number, head: Uint8Array, bodyBytes: number): Buffer {
  const bytes = Buffer.alloc(FRAME_BYTES + head.length);
  bytes.writeUInt32LE(MAGIC, 0);
  bytes.writeUInt32LE(KINDS.indexOf(kind), 4);
  bytes.writeUInt32LE(id >>> 0, 8);
  bytes.writeUInt32LE(head.length, 12);
  bytes.writeUInt32LE(bodyBytes, 16);
  bytes.set(head, FRAME_BYTES);
  return bytes;
}

/** Decodes a header. @returns the frame, or the reason why the bytes are not a frame. */
export function decodeFrame(bytes: Uint8Array): Frame | { readonly refusal: string } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, FRAME_BYTES);
  const [magic, kindNumber, id, headBytes, bodyBytes] = [0, 4, 8, 12, 16].map((at) => view.getUint32(at, true)) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const kind = KINDS[kindNumber];
  if (magic !== MAGIC || kind === undefined) {
    return { refusal: 'sent something that is no frame' };
  }
  if (headBytes > MAX_HEAD_BYTES) {
    return { refusal: `sent a head of ${headBytes} bytes` };
  }
  return { kind, id, headBytes, bodyBytes };
}
