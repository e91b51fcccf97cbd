import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import type { Column } from '../../encoding/idx.ts';
import { claimedPixels } from './image-size.ts';

interface ImageCodecs {
  decodeImage(bytes: Uint8Array, channels?: number, dtype?: 'int32', expandAnimations?: boolean): tfjs.Tensor;
}

/**
 * Maximum number of pixels in an image, summed over all frames. A small file can declare billions of pixels in its header, and the decoder
 * would allocate up to 16 bytes for each of them.
 */
const MAXIMUM_PIXELS = 100_000_000;

/** Number of channels: 1 for grey, 3 for RGB, 4 for RGBA (PNG only), or 0 for the number in the file. */
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
 * @throws TonyError BACKEND_UNFIT if the backend cannot decode images, or DATA_INVALID if the bytes are not an image or the image has more
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
    throw new TonyError('BACKEND_UNFIT', `the backend ${tf.getBackend()} cannot decode images`, {
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
