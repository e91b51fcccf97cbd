import { FrameHeader } from '../encoding/frame-header.ts';

/**
 * The header before each vector. All fields are little-endian.
 *
 *   +------------+------------+--------------------+------------+
 *   | "TNYV" u32 | kind u32   | sequence u32       | length u32 |   16 bytes, followed by the segments of the vector:
 *   +------------+------------+--------------------+------------+   4 bytes per number, or 2 if the kind is float16
 *
 * The receiver rejects a frame whose `length` differs from the length of its own call, and never allocates memory based on `length`.
 */
export interface RingFrame {
  readonly kind: RingFrameKind;
  /** The number of earlier collective calls in this generation, modulo 2^32. In a `bye` frame, the total number of calls. */
  readonly sequence: number;
  readonly length: number;
}

/** A `bye` frame means that the sender has closed its ring and makes no further calls. */
export type RingFrameKind = (typeof KINDS)[number];

const KINDS = ['sum', 'mean', 'broadcast', 'bye', 'sum as float16', 'mean as float16'] as const;
const HEADER = new FrameHeader('TNYV', KINDS, 2);

export const FRAME_BYTES = HEADER.bytes;

export function encodeFrame({ kind, sequence, length }: RingFrame): Buffer {
  return HEADER.encode(kind, sequence >>> 0, length);
}

/** Returns null if `bytes` is not a frame header. */
export function decodeFrame(bytes: Uint8Array): RingFrame | null {
  const header = HEADER.decode(bytes);
  if (header === null) {
    return null;
  }
  const [sequence = 0, length = 0] = header.fields;
  return { kind: header.kind, sequence, length };
}

export function describeFrame(frame: RingFrame): string {
  switch (frame.kind) {
    case 'bye':
      return `end of training after ${frame.sequence} calls`;
    case 'broadcast':
      return `broadcast of ${frame.length} numbers (call ${frame.sequence})`;
    default:
      return `all-reduce (${frame.kind}) of ${frame.length} numbers (call ${frame.sequence})`;
  }
}
