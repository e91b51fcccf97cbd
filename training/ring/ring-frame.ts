import { FrameHeader } from '../encoding/frame-header.ts';

/**
 * The header that precedes each vector, little-endian like the numbers that follow:
 *
 *   +------------+------------+--------------------+------------+
 *   | "TNYV" u32 | kind u32   | sequence u32       | length u32 |   16 bytes, then the segments of `length` numbers,
 *                                                                     4 bytes per number, or 2 if the kind is float16
 *   +------------+------------+--------------------+------------+
 *
 * The receiver never allocates memory based on `length`. It rejects the frame if `length` differs from its own call with this sequence
 * number.
 */
export interface Frame {
  readonly kind: FrameKind;
  /** The number of earlier collective calls of the generation, modulo 2^32; for `bye`, the number of all calls. */
  readonly sequence: number;
  /** The length of the vector, in numbers. */
  readonly length: number;
}

/** `bye`: the sender has closed its ring and makes no further calls. */
export type FrameKind = (typeof KINDS)[number];

const KINDS = ['sum', 'mean', 'broadcast', 'bye', 'sum as float16', 'mean as float16'] as const;
const HEADER = new FrameHeader('TNYV', KINDS, 2);

export const FRAME_BYTES = HEADER.bytes;

export function encodeFrame({ kind, sequence, length }: Frame): Buffer {
  return HEADER.encode(kind, sequence >>> 0, length);
}

/** Returns null if the bytes are not a frame. */
export function decodeFrame(bytes: Uint8Array): Frame | null {
  const header = HEADER.decode(bytes);
  if (header === null) {
    return null;
  }
  const [sequence = 0, length = 0] = header.fields;
  return { kind: header.kind, sequence, length };
}

/** Describes a call, for the error message when two ranks make different calls. */
export function describeFrame(frame: Frame): string {
  switch (frame.kind) {
    case 'bye':
      return `end of training after ${frame.sequence} calls`;
    case 'broadcast':
      return `broadcast of ${frame.length} numbers (call ${frame.sequence})`;
    default:
      return `all-reduce (${frame.kind}) of ${frame.length} numbers (call ${frame.sequence})`;
  }
}
