import type * as tfjs from '@tensorflow/tfjs';
import type { Column } from '../../../contract/encoding/idx.ts';
import { messageOf, TonyError } from '../../../platform/errors.ts';

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
/** The masks of red, green and blue in 32-bit pixels whose bytes are blue, green, red. */
const BGR_MASKS = Buffer.from('0000ff0000ff0000ff000000', 'hex');

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
  if (bytes.length >= 13 && isGif(bytes)) {
    return gifPixels(bytes, allFrames);
  }
  if (bytes.length >= 4 && bytes.readUInt16BE(0) === 0xffd8) {
    return jpegPixels(bytes);
  }
  return 0;
}

function isGif(bytes: Uint8Array): boolean {
  return /^GIF8[79]a$/.test(Buffer.from(bytes.subarray(0, 6)).toString('latin1'));
}

/**
 * Returns why the decoder would misread a BMP, or null. The decoder returns the bytes of the pixels: 8-bit numbers of colours in a table as
 * grey values, and compressed or 16-bit pixels as if they were plain.
 *
 *   from byte 14  uint32 length of the header (12 for OS/2), at 28 uint16 bits per pixel, at 30 uint32 compression (0 none, 3 masks),
 *                 at 46 uint32 number of colours in the table (0 for all), and for compression 3 uint32 masks of red, green and blue at 54
 *   colour table  4 bytes for each colour (blue, green, red, 0) after the header
 */
export function misreadBmp(data: Uint8Array): string | null {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (bytes.length < 26 || bytes.toString('latin1', 0, 2) !== 'BM') {
    return null;
  }
  const headerBytes = bytes.readUInt32LE(14);
  if (headerBytes < 40) {
    return `has a header of ${headerBytes} bytes, which the decoder does not know`;
  }
  if (bytes.length < 54) {
    return null; // The decoder rejects an incomplete header.
  }
  const bits = bytes.readUInt16LE(28);
  const compression = bytes.readUInt32LE(30);
  if (![8, 24, 32].includes(bits)) {
    return `has ${bits} bits per pixel`;
  }
  const hasPlainMasks = compression === 3 && bits === 32 && bytes.subarray(54, 66).equals(BGR_MASKS);
  if (compression !== 0 && !hasPlainMasks) {
    return compression === 3 ? 'has colour masks in another order than blue, green, red' : `has the compression ${compression}`;
  }
  return bits === 8 && !hasGreyTable(bytes, 14 + headerBytes) ? 'has a colour table' : null;
}

/** Returns true if each 8-bit number is its own grey value, or the file has no table. */
function hasGreyTable(bytes: Buffer, start: number): boolean {
  const end = Math.min(bytes.readUInt32LE(10), start + 4 * (bytes.readUInt32LE(46) || 256));
  for (let at = start; at + 4 <= end; at += 4) {
    const grey = (at - start) / 4;
    if (bytes[at] !== grey || bytes[at + 1] !== grey || bytes[at + 2] !== grey) {
      return false;
    }
  }
  return true;
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
  const tableBytes = (flags: number): number => (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0);
  let pixels = 0;
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
      // The decoder stores a frame in its own size and on the canvas.
      const size = at + 9 <= bytes.length ? bytes.readUInt16LE(at + 5) * bytes.readUInt16LE(at + 7) : 0;
      pixels += Math.max(canvas, size);
      // The data blocks follow the image descriptor (10 bytes), the optional colour table and one byte.
      at += 10 + tableBytes(bytes[at + 9] ?? 0) + 1;
      if (!allFrames) {
        break;
      }
      skipBlocks();
    } else {
      break;
    }
  }
  return Math.max(canvas, pixels);
}

interface ImageCodecs {
  decodeImage(bytes: Uint8Array, channels?: number, dtype?: 'int32', expandAnimations?: boolean): tfjs.Tensor;
}

/**
 * Maximum number of pixels in an image, summed over all frames. A small file can declare billions of pixels in its header, and the decoder
 * would allocate up to 16 bytes for each of them.
 */
const MAXIMUM_PIXELS = 100_000_000;

/** Number of channels: 1 for grey, 3 for RGB, 4 for RGBA (PNG only), or 0 for the number in the file. A GIF always has 3. */
export type Channels = 0 | 1 | 3 | 4;

export interface DecodeImageOptions {
  /** Number of channels in the result. Default: the number in the file. */
  readonly channels?: Channels;
  /**
   * Size to which the image is resized, as [height, width]. If a size is given, only the first frame of a GIF is used. By default, the
   * image keeps its size, and a GIF keeps all frames.
   */
  readonly size?: readonly [height: number, width: number];
  /** Interpolation for resizing. Default: bilinear. */
  readonly interpolation?: 'bilinear' | 'nearest';
  /**
   * Whether to crop the image centrally to the new aspect ratio before resizing. Otherwise, resizing may distort the image. Default: false.
   */
  readonly cropToAspectRatio?: boolean;
}

/**
 * Decodes a PNG, JPEG, BMP or GIF file to one byte per value. The result has the shape [height, width, channels], or [frames, height,
 * width, 3] for a GIF. Requires the native backend.
 * @throws TonyError BACKEND_UNSUPPORTED if the backend cannot decode images, or DATA_INVALID if the bytes are not an image or the image has more
 * than 100 million pixels.
 */
export function decodeImage(tf: typeof tfjs, bytes: Uint8Array, options: Channels | DecodeImageOptions = {}): Column {
  const codecs = codecsOf(tf);
  const {
    channels = 0,
    size,
    interpolation = 'bilinear',
    cropToAspectRatio = false,
  } = typeof options === 'number' ? { channels: options } : options;
  const result = tf.tidy(() => {
    const pixels = decoded(codecs, bytes, channels, size === undefined);
    if (size === undefined) {
      return pixels;
    }
    const image = cropToAspectRatio ? cropped(tf, pixels as tfjs.Tensor3D, size) : (pixels as tfjs.Tensor3D);
    if (image.shape[0] === size[0] && image.shape[1] === size[1]) {
      return image;
    }
    if (interpolation === 'nearest') {
      return tf.image.resizeNearestNeighbor(image, [...size], false, true);
    }
    // Values are rounded to bytes, because floats would need four times the memory until the batch becomes a tensor.
    return tf.image.resizeBilinear(image, [...size], false, true).round();
  });
  try {
    return { values: Uint8Array.from(result.dataSync()), shape: result.shape };
  } finally {
    result.dispose();
  }
}

export function codecsOf(tf: typeof tfjs): ImageCodecs {
  const { node } = tf as unknown as { readonly node?: ImageCodecs };
  if (node === undefined) {
    throw new TonyError('BACKEND_UNSUPPORTED', `the backend ${tf.getBackend()} cannot decode images`, {
      hint: 'Use a runtime with the native backend (`tony-ts runtime build`), or store raw pixels.',
    });
  }
  return node;
}

function decoded(codecs: ImageCodecs, bytes: Uint8Array, channels: Channels, allFrames: boolean): tfjs.Tensor {
  const pixels = claimedPixels(bytes, allFrames);
  if (pixels > MAXIMUM_PIXELS) {
    throw new TonyError('DATA_INVALID', `the header of an image declares ${pixels} pixels; the maximum is ${MAXIMUM_PIXELS}`, {
      hint: 'Reduce the size of the image, or split it into several images.',
    });
  }
  if (isGif(bytes) && channels !== 0 && channels !== 3) {
    throw new TonyError('DATA_INVALID', `a GIF has 3 channels, so it cannot be decoded with ${channels}`, {
      hint: 'Leave out `channels`, and convert the values in `map`.',
    });
  }
  const misread = misreadBmp(bytes);
  if (misread !== null) {
    throw new TonyError('DATA_INVALID', `a BMP ${misread}, so its pixels would be wrong`, {
      hint: 'Convert the image to PNG, or to a BMP with 24 bits per pixel.',
    });
  }
  try {
    return codecs.decodeImage(bytes, channels, 'int32', allFrames);
  } catch (error) {
    throw new TonyError('DATA_INVALID', `an image cannot be decoded: ${messageOf(error)}`, { cause: error });
  }
}

function cropped(tf: typeof tfjs, image: tfjs.Tensor3D, [height, width]: readonly [number, number]): tfjs.Tensor3D {
  const [rows, columns, channels] = image.shape;
  const kept = [Math.min(rows, Math.round((columns * height) / width)), Math.min(columns, Math.round((rows * width) / height))] as const;
  const from = [Math.floor((rows - kept[0]) / 2), Math.floor((columns - kept[1]) / 2)] as const;
  return tf.slice3d(image, [...from, 0], [Math.max(1, kept[0]), Math.max(1, kept[1]), channels]);
}
