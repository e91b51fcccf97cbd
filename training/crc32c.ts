/**
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4), reflected polynomial 0x82f63b78. Table k, at 256 * k, says what a byte does to the sum when k
 * bytes follow: sixteen bytes are taken at once ("slicing"), four times as fast as one by one, which is what reading records waits for.
 */
const TABLES = new Int32Array(16 * 256);
for (let byte = 0; byte < 256; byte++) {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) {
    value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  }
  TABLES[byte] = value;
}
for (let at = 256; at < TABLES.length; at++) {
  const shorter = TABLES[at - 256] as number;
  TABLES[at] = (shorter >>> 8) ^ (TABLES[shorter & 0xff] as number);
}

// Words are read as the machine has them.
const IS_LITTLE_ENDIAN = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1;

export function crc32c(bytes: Uint8Array): number {
  const end = bytes.length;
  let crc = -1;
  let at = 0;
  if (IS_LITTLE_ENDIAN && end >= 32) {
    const aligned = -bytes.byteOffset & 3;
    for (; at < aligned; at++) {
      crc = (crc >>> 8) ^ (TABLES[(crc ^ (bytes[at] as number)) & 0xff] as number);
    }
    const words = new Int32Array(bytes.buffer, bytes.byteOffset + at, (end - at) >> 2);
    const last = words.length - 3;
    let word = 0;
    for (; word < last; word += 4) {
      const a = crc ^ (words[word] as number);
      const b = words[word + 1] as number;
      const c = words[word + 2] as number;
      const d = words[word + 3] as number;
      crc =
        (TABLES[3840 + (a & 0xff)] as number) ^
        (TABLES[3584 + ((a >>> 8) & 0xff)] as number) ^
        (TABLES[3328 + ((a >>> 16) & 0xff)] as number) ^
        (TABLES[3072 + (a >>> 24)] as number) ^
        (TABLES[2816 + (b & 0xff)] as number) ^
        (TABLES[2560 + ((b >>> 8) & 0xff)] as number) ^
        (TABLES[2304 + ((b >>> 16) & 0xff)] as number) ^
        (TABLES[2048 + (b >>> 24)] as number) ^
        (TABLES[1792 + (c & 0xff)] as number) ^
        (TABLES[1536 + ((c >>> 8) & 0xff)] as number) ^
        (TABLES[1280 + ((c >>> 16) & 0xff)] as number) ^
        (TABLES[1024 + (c >>> 24)] as number) ^
        (TABLES[768 + (d & 0xff)] as number) ^
        (TABLES[512 + ((d >>> 8) & 0xff)] as number) ^
        (TABLES[256 + ((d >>> 16) & 0xff)] as number) ^
        (TABLES[d >>> 24] as number);
    }
    at += word * 4;
  }
  for (; at < end; at++) {
    crc = (crc >>> 8) ^ (TABLES[(crc ^ (bytes[at] as number)) & 0xff] as number);
  }
  return ~crc >>> 0;
}

/** As TFRecord files have it: rotated and shifted, so that the checksum of data that holds checksums is not degenerate. */
export function maskedCrc32c(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}
