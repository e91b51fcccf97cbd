import { promisify } from 'node:util';
import { crc32, deflate } from 'node:zlib';

/**
 * PNG (ISO/IEC 15948): a signature followed by chunks. All numbers are big-endian.
 *
 *   | length of data u32 | type, 4 letters | data | crc32 of type and data u32 |
 *
 *   IHDR: width u32, height u32, bits per sample u8 = 8, colour type u8, compression u8 = 0, filter method u8 = 0, interlace u8 = 0
 *   IDAT: zlib stream of the rows from top to bottom, each preceded by its filter number (0: none)
 *   IEND: empty
 */
const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** PNG colour types by number of channels: grey, grey with alpha, RGB, RGBA. */
const COLOUR_TYPES = [0, 4, 2, 6] as const;

const compress = promisify(deflate);

/**
 * Encodes an image.
 * @param channels the number of channels, 1 to 4.
 * @param pixels the pixels in row-major order, with interleaved channels.
 */
export async function encodePng(width: number, height: number, channels: number, pixels: Uint8Array): Promise<Buffer> {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header[8] = 8;
  header[9] = COLOUR_TYPES[channels - 1] as number;
  const stride = width * channels;
  const rows = Buffer.alloc(height * (1 + stride));
  for (let row = 0; row < height; row++) {
    rows.set(pixels.subarray(row * stride, (row + 1) * stride), row * (1 + stride) + 1);
  }
  return Buffer.concat([SIGNATURE, chunk('IHDR', header), chunk('IDAT', await compress(rows)), chunk('IEND', Buffer.alloc(0))]);
}

function chunk(type: string, data: Buffer): Buffer {
  const bytes = Buffer.alloc(8 + data.length + 4);
  bytes.writeUInt32BE(data.length, 0);
  bytes.write(type, 4, 'latin1');
  bytes.set(data, 8);
  bytes.writeUInt32BE(crc32(bytes.subarray(4, 8 + data.length)), 8 + data.length);
  return bytes;
}
