import { maskedCrc32c } from './crc32c.ts';

/**
 * The frame of a TFRecord (tensorflow/core/lib/io/record_writer.h), little-endian:
 *
 *   | length u64 | masked crc32c of the length u32 | data | masked crc32c of the data u32 |
 */
export const HEADER_BYTES = 12;
export const FOOTER_BYTES = 4;

/**
 * Writes a record's header and footer. The buffer must already contain the data, with space for the header before the data and for the
 * footer after it.
 */
export function sealRecord(record: Buffer): Buffer {
  const end = record.length - FOOTER_BYTES;
  const length = end - HEADER_BYTES;
  record.writeUInt32LE(length % 2 ** 32, 0);
  record.writeUInt32LE(Math.floor(length / 2 ** 32), 4);
  record.writeUInt32LE(maskedCrc32c(record, 0, 8), 8);
  record.writeUInt32LE(maskedCrc32c(record, HEADER_BYTES, end), end);
  return record;
}
