import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../../conf/errors.ts';
import type { Column } from '../idx.ts';

interface ImageCodecs {
  decodeImage(bytes: Uint8Array, channels?: number): tfjs.Tensor;
}

/**
 * The pixels of a PNG, JPEG, BMP or GIF file: `shape` is [height, width, channels], of a GIF [frames, height, width, 3]. Needs the native
 * backend.
 * @param channels 1: grey, 3: RGB, 4: RGBA, 0: as in the file.
 * @throws TonyError BACKEND_UNFIT where the backend cannot do it, DATA_INVALID when the bytes are no image.
 */
export function decodeImage(tf: typeof tfjs, bytes: Uint8Array, channels: 0 | 1 | 3 | 4 = 0): Column {
  const { node } = tf as unknown as { readonly node?: ImageCodecs };
  if (node === undefined) {
    throw new TonyError('BACKEND_UNFIT', `images cannot be decoded by the backend ${tf.getBackend()}`, {
      hint: 'Use a runtime with the native backend (`tony-ts runtime build`), or store raw pixels.',
    });
  }
  let pixels: tfjs.Tensor;
  try {
    pixels = node.decodeImage(bytes, channels);
  } catch (error) {
    throw new TonyError('DATA_INVALID', `an image cannot be decoded: ${messageOf(error)}`, { cause: error });
  }
  try {
    return { values: Uint8Array.from(pixels.dataSync()), shape: pixels.shape };
  } finally {
    pixels.dispose();
  }
}
