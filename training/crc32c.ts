/**
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4), reflected polynomial 0x82f63b78. Table k says what a byte does to the sum when k bytes
 * follow: sixteen bytes are taken at once ("slicing"), four times as fast as one by one, which is what reading records waits for.
 */
/** Of `bytes` from `start` to `end`. */
export const crc32c = createCrc32c();

/** A function around its tables: as constants of a module, bundled, they would be looked up anew for each byte. */
function createCrc32c(): (bytes: Uint8Array, start?: number, end?: number) => number {
  const T0 = Int32Array.from({ length: 256 }, (_, byte) => {
    let value = byte;
    for (let bit = 0; bit < 8; bit++) {
      value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
    }
    return value;
  });
  const followedByOneMore = (table: Int32Array) => table.map((value) => (value >>> 8) ^ (T0[value & 0xff] as number));
  const T1 = followedByOneMore(T0);
  const T2 = followedByOneMore(T1);
  const T3 = followedByOneMore(T2);
  const T4 = followedByOneMore(T3);
  const T5 = followedByOneMore(T4);
  const T6 = followedByOneMore(T5);
  const T7 = followedByOneMore(T6);
  const T8 = followedByOneMore(T7);
  const T9 = followedByOneMore(T8);
  const T10 = followedByOneMore(T9);
  const T11 = followedByOneMore(T10);
  const T12 = followedByOneMore(T11);
  const T13 = followedByOneMore(T12);
  const T14 = followedByOneMore(T13);
  const T15 = followedByOneMore(T14);
  return (bytes, start = 0, end = bytes.length) => {
    const last = end - 15;
    let crc = -1;
    let at = start;
    for (; at < last; at += 16) {
      crc ^=
        (bytes[at] as number) | ((bytes[at + 1] as number) << 8) | ((bytes[at + 2] as number) << 16) | ((bytes[at + 3] as number) << 24);
      crc =
        (T15[crc & 0xff] as number) ^
        (T14[(crc >>> 8) & 0xff] as number) ^
        (T13[(crc >>> 16) & 0xff] as number) ^
        (T12[crc >>> 24] as number) ^
        (T11[bytes[at + 4] as number] as number) ^
        (T10[bytes[at + 5] as number] as number) ^
        (T9[bytes[at + 6] as number] as number) ^
        (T8[bytes[at + 7] as number] as number) ^
        (T7[bytes[at + 8] as number] as number) ^
        (T6[bytes[at + 9] as number] as number) ^
        (T5[bytes[at + 10] as number] as number) ^
        (T4[bytes[at + 11] as number] as number) ^
        (T3[bytes[at + 12] as number] as number) ^
        (T2[bytes[at + 13] as number] as number) ^
        (T1[bytes[at + 14] as number] as number) ^
        (T0[bytes[at + 15] as number] as number);
    }
    if (at + 8 <= end) {
      // Lengths of records are eight bytes.
      crc ^=
        (bytes[at] as number) | ((bytes[at + 1] as number) << 8) | ((bytes[at + 2] as number) << 16) | ((bytes[at + 3] as number) << 24);
      crc =
        (T7[crc & 0xff] as number) ^
        (T6[(crc >>> 8) & 0xff] as number) ^
        (T5[(crc >>> 16) & 0xff] as number) ^
        (T4[crc >>> 24] as number) ^
        (T3[bytes[at + 4] as number] as number) ^
        (T2[bytes[at + 5] as number] as number) ^
        (T1[bytes[at + 6] as number] as number) ^
        (T0[bytes[at + 7] as number] as number);
      at += 8;
    }
    for (; at < end; at++) {
      crc = (crc >>> 8) ^ (T0[(crc ^ (bytes[at] as number)) & 0xff] as number);
    }
    return ~crc >>> 0;
  };
}

/** As TFRecord files have it: rotated and shifted, so that the checksum of data that holds checksums is not degenerate. */
export function maskedCrc32c(bytes: Uint8Array, start = 0, end = bytes.length): number {
  const crc = crc32c(bytes, start, end);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}
