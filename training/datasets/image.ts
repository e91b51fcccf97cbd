import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../conf/errors.ts';
import type { Column } from '../idx.ts';

interface ImageCodecs {
  decodeImage(bytes: Uint8Array, channels?: number, dtype?: 'int32', expandAnimations?: boolean): tfjs.Tensor;
}

/** 1: grey, 3: RGB, 4: RGBA (PNG only), 0: as in the file. */
export type Channels = 0 | 1 | 3 | 4;

export interface DecodeImageOptions {
  /** As in the file unless told. */
  readonly channels?: Channels;
  /** [height, width] of the result, and of a GIF its first frame only; the image's own, and all frames, unless told. */
  readonly size?: readonly [height: number, width: number];
  /** Of resizing; bilinear unless told. */
  readonly interpolation?: 'bilinear' | 'nearest';
  /** Cuts what is beyond the wanted proportions off (both sides alike) instead of distorting; false unless told. */
  readonly cropToAspectRatio?: boolean;
}

/**
 * The pixels of a PNG, JPEG, BMP or GIF file, a byte each: `shape` is [height, width, channels], of a GIF [frames, height, width, 3]. Needs the
 * native backend.
 * @throws TonyError BACKEND_UNFIT where the backend cannot do it, DATA_INVALID when the bytes are no image.
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
    if (size === undefined) return pixels;
    const image = cropToAspectRatio ? cropped(tf, pixels as tfjs.Tensor3D, size) : (pixels as tfjs.Tensor3D);
    if (image.shape[0] === size[0] && image.shape[1] === size[1]) return image;
    if (interpolation === 'nearest') return tf.image.resizeNearestNeighbor(image, [...size], false, true);
    // As bytes again: a quarter of the memory, until the images become a batch of tensors.
    return tf.image.resizeBilinear(image, [...size], false, true).round();
  });
  try {
    return { values: Uint8Array.from(result.dataSync()), shape: result.shape };
  } finally {
    result.dispose();
  }
}

/** @throws TonyError BACKEND_UNFIT. */
export function codecsOf(tf: typeof tfjs): ImageCodecs {
  const { node } = tf as unknown as { readonly node?: ImageCodecs };
  if (node === undefined) {
    throw new TonyError('BACKEND_UNFIT', `images cannot be decoded by the backend ${tf.getBackend()}`, {
      hint: 'Use a runtime with the native backend (`tony-ts runtime build`), or store raw pixels.',
    });
  }
  return node;
}

function decoded(codecs: ImageCodecs, bytes: Uint8Array, channels: Channels, allFrames: boolean): tfjs.Tensor {
  try {
    return codecs.decodeImage(bytes, channels, 'int32', allFrames);
  } catch (error) {
    throw new TonyError('DATA_INVALID', `an image cannot be decoded: ${messageOf(error)}`, { cause: error });
  }
}

/** The largest part around the middle that has the proportions of `size`. */
function cropped(tf: typeof tfjs, image: tfjs.Tensor3D, [height, width]: readonly [number, number]): tfjs.Tensor3D {
  const [rows, columns, channels] = image.shape;
  const kept = [Math.min(rows, Math.round((columns * height) / width)), Math.min(columns, Math.round((rows * width) / height))] as const;
  const from = [Math.floor((rows - kept[0]) / 2), Math.floor((columns - kept[1]) / 2)] as const;
  return tf.slice3d(image, [...from, 0], [Math.max(1, kept[0]), Math.max(1, kept[1]), channels]);
}
