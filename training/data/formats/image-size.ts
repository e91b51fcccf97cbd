/*
 * Reads the image size from the file header, without decoding the image.
 *
 *   PNG   8 bytes of signature, int32 length, "IHDR", int32 width, int32 height (big endian)
 *   BMP   "BM"; from byte 14 the length of the header: 12 has int16 width and height at 18, others int32 at 18 and 22; a negative height
 *         counts down
 *   GIF   "GIF87a" or "GIF89a", int16 width and height of the canvas, on which all frames are drawn; frames begin with 0x2c
 *   JPEG  segments of 0xff, a marker, int16 length; a frame header (0xc0..0xcf except 0xc4, 0xc8, 0xcc) has int8 precision, int16 height,
 *         int16 width
 */

const PNG = Buffer.from('89504e470d0a1a0a', 'hex');

/**
 * Returns the number of pixels declared in an image's header. With `allFrames`, counts the pixels in all frames of a GIF. Returns 0 for an
 * unknown format, which the decoder will reject.
 */
export function claimedPixels(data: Uint8Array, allFrames: boolean): number {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (bytes.length >= 24 && bytes.subarray(0, 8).equals(PNG)) {
    return bytes.readUInt32BE(16) * bytes.readUInt32BE(20);
  }
  if (bytes.length >= 26 && bytes.toString('latin1', 0, 2) === 'BM') {
    return bmpPixels(bytes);
  }
  if (bytes.length >= 13 && /^GIF8[79]a$/.test(bytes.toString('latin1', 0, 6))) {
    return gifPixels(bytes, allFrames);
  }
  if (bytes.length >= 4 && bytes.readUInt16BE(0) === 0xffd8) {
    return jpegPixels(bytes);
  }
  return 0;
}

function bmpPixels(bytes: Buffer): number {
  if (bytes.readUInt32LE(14) === 12) {
    return bytes.readUInt16LE(18) * bytes.readUInt16LE(20);
  }
  return Math.abs(bytes.readInt32LE(18)) * Math.abs(bytes.readInt32LE(22));
}

function jpegPixels(bytes: Buffer): number {
  let at = 2;
  while (at + 9 <= bytes.length) {
    // Any number of 0xff bytes may precede a marker as padding.
    if (bytes[at] !== 0xff) {
      return 0;
    }
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff) {
      at += 1;
    } else if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {
      at += 2;
    } else if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return bytes.readUInt16BE(at + 5) * bytes.readUInt16BE(at + 7);
    } else {
      at += 2 + bytes.readUInt16BE(at + 2);
    }
  }
  return 0;
}

function gifPixels(bytes: Buffer, allFrames: boolean): number {
  const canvas = bytes.readUInt16LE(6) * bytes.readUInt16LE(8);
  if (!allFrames) {
    return canvas;
  }
  const tableBytes = (flags: number): number => (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0);
  let frames = 0;
  let at = 13 + tableBytes(bytes[10] ?? 0);
  const skipBlocks = (): void => {
    for (let size = bytes[at] ?? 0; size > 0; size = bytes[at] ?? 0) {
      at += size + 1;
    }
    at += 1;
  };
  while (at < bytes.length) {
    const kind = bytes[at];
    if (kind === 0x21) {
      at += 2;
      skipBlocks();
    } else if (kind === 0x2c) {
      frames += 1;
      // The data blocks follow the image descriptor (10 bytes), the optional colour table and one byte.
      at += 10 + tableBytes(bytes[at + 9] ?? 0) + 1;
      skipBlocks();
    } else {
      break;
    }
  }
  return canvas * Math.max(1, frames);
}
