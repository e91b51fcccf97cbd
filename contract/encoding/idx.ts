import { TonyError } from '../../platform/errors.ts';

/** Several examples in one array. `shape[0]` is the number of examples, and the other dimensions are the shape of each example. */
export interface Column {
  readonly values: Uint8Array | Int8Array | Int16Array | Int32Array | Float32Array;
  readonly shape: readonly number[];
}

/*
 * The IDX format of the MNIST files (http://yann.lecun.com/exdb/mnist), big-endian:
 *
 *   | 0 | 0 | type u8 | dimensions u8 | size u32 per dimension | the values in row-major order |
 */
const TYPES = {
  8: { bytes: 1, read: (view, count) => new Uint8Array(view.buffer, view.byteOffset, count) },
  9: { bytes: 1, read: (view, count) => new Int8Array(view.buffer, view.byteOffset, count) },
  11: { bytes: 2, read: (view, count) => Int16Array.from({ length: count }, (_, index) => view.getInt16(index * 2)) },
  12: { bytes: 4, read: (view, count) => Int32Array.from({ length: count }, (_, index) => view.getInt32(index * 4)) },
  13: { bytes: 4, read: (view, count) => Float32Array.from({ length: count }, (_, index) => view.getFloat32(index * 4)) },
  14: { bytes: 8, read: (view, count) => Float32Array.from({ length: count }, (_, index) => view.getFloat64(index * 8)) },
} as const satisfies Record<number, { bytes: number; read: (view: DataView<ArrayBufferLike>, count: number) => Column['values'] }>;

/** Length of the longest possible header, which has 255 dimensions. */
export const MAX_HEADER_BYTES = 4 + 255 * 4;

export interface IdxHeader {
  readonly bytes: number;
  readonly shape: readonly number[];
  readonly valueBytes: number;
  /** Reads `count` values, beginning at byte `at`. If each value is one byte long, the result is a view of `bytes`. */
  read(bytes: Uint8Array, at: number, count: number): Column['values'];
}

/**
 * Parses an IDX file header.
 * @param bytes the first MAX_HEADER_BYTES bytes of the file, or the whole file if it is shorter.
 * @param where the file name, for error messages.
 * @throws TonyError DATA_INVALID if the header is invalid or incomplete.
 */
export function parseIdxHeader(bytes: Uint8Array, where: string): IdxHeader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const type = bytes.length >= 4 && view.getUint16(0) === 0 ? TYPES[view.getUint8(2) as keyof typeof TYPES] : undefined;
  if (type === undefined) {
    throw new TonyError('DATA_INVALID', `${where} is not an IDX file`);
  }
  const dimensions = view.getUint8(3);
  const length = 4 + dimensions * 4;
  if (bytes.length < length) {
    throw new TonyError('DATA_INVALID', `${where} ends within its header`);
  }
  return {
    bytes: length,
    shape: Array.from({ length: dimensions }, (_, index) => view.getUint32(4 + index * 4)),
    valueBytes: type.bytes,
    read: (source, at, count) => type.read(new DataView(source.buffer, source.byteOffset + at, count * type.bytes), count),
  };
}

/**
 * Parses a complete IDX file.
 * @param where the file name, for error messages.
 * @throws TonyError DATA_INVALID if the file is invalid or incomplete.
 */
export function parseIdx(bytes: Uint8Array, where: string): Column {
  const { bytes: start, shape, valueBytes, read } = parseIdxHeader(bytes, where);
  const count = shape.reduce((product, size) => product * size, 1);
  if (bytes.length !== start + count * valueBytes) {
    throw new TonyError(
      'DATA_INVALID',
      `${where} has ${bytes.length} bytes; its header (${shape.join(' x ')}) requires ${start + count * valueBytes}`,
    );
  }
  return { values: read(bytes, start, count), shape };
}
