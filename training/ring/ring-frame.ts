/**
 * The header that precedes each vector, little-endian like the numbers that follow:
 *
 *   +------------+------------+--------------------+------------+
 *   | "TNYV" u32 | kind u32   | sequence u32       | length u32 |   16 bytes, then the segments of `length` numbers,
 *                                                                     4 bytes per number, or 2 if the kind is float16
 *   +------------+------------+--------------------+------------+
 *
 * The receiver never allocates memory by `length`: it must equal the length in this rank's own call with the same sequence number.
 */
export interface Frame {
  readonly kind: FrameKind;
  /** Counts the collective calls of a generation, modulo 2^32. */
  readonly sequence: number;
  /** In numbers. */
  readonly length: number;
}

/** `bye`: this rank has closed its ring and makes no further calls. */
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

/** Returns null if the bytes are not a frame. */
export function decodeFrame(bytes: Uint8Array): Frame | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, FRAME_BYTES);
  const kind = KINDS[view.getUint32(4, true)];
  if (view.getUint32(0, true) !== MAGIC || kind === undefined) {
    return null;
  }
  return { kind, sequence: view.getUint32(8, true), length: view.getUint32(12, true) };
}

/** Describes the call in the error message for two ranks that make different calls. */
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
