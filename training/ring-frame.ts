/**
 * What goes before each vector, from left to right, little-endian (as the numbers that follow are):
 *
 *   +------------+------------+--------------------+------------+
 *   | "TNYV" u32 | kind u32   | sequence u32       | length u32 |   16 bytes, then `length` numbers' worth of segments,
 *                                                                     4 bytes a number, or 2 where the kind says float16
 *   +------------+------------+--------------------+------------+
 *
 * Nothing is allocated from `length`: it must be what this rank expects in its own call of the same sequence.
 */
export interface Frame {
  readonly kind: FrameKind;
  /** Counts the collective calls of a generation, modulo 2^32. */
  readonly sequence: number;
  /** In numbers. */
  readonly length: number;
}

/** `bye`: this rank has ended and calls no more. */
export type FrameKind = (typeof KINDS)[number];

export const FRAME_BYTES = 16;

const MAGIC = 0x56594e54; // "TNYV", little-endian
const KINDS = ['sum', 'mean', 'broadcast', 'bye', 'sum as float16', 'mean as float16'] as const;

export function encodeFrame(frame: Frame): Buffer {
  const bytes = Buffer.alloc(FRAME_BYTES);
  bytes.writeUInt32LE(MAGIC, 0);
  bytes.writeUInt32LE(KINDS.indexOf(frame.kind), 4);
  bytes.writeUInt32LE(frame.sequence >>> 0, 8);
  bytes.writeUInt32LE(frame.length, 12);
  return bytes;
}

/** null when these bytes are no frame. */
export function decodeFrame(bytes: Uint8Array): Frame | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, FRAME_BYTES);
  const kind = KINDS[view.getUint32(4, true)];
  if (view.getUint32(0, true) !== MAGIC || kind === undefined) {
    return null;
  }
  return { kind, sequence: view.getUint32(8, true), length: view.getUint32(12, true) };
}

/** In words, for the message when two ranks do not make the same call. */
export function describeFrame(frame: Frame): string {
  switch (frame.kind) {
    case 'sum':
    case 'mean':
    case 'sum as float16':
    case 'mean as float16':
      return `all-reduce (${frame.kind}) of ${frame.length} numbers as its call ${frame.sequence}`;
    case 'broadcast':
      return `broadcast of ${frame.length} numbers as its call ${frame.sequence}`;
    case 'bye':
      return `end of training after ${frame.sequence} calls`;
  }
}
