import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import type { Column } from '../encoding/idx.ts';
import { encodePng } from '../encoding/png.ts';
import { stringTensor, type TensorValue } from './event-file.ts';
import { isTensor, numbersOf } from './summary-numbers.ts';

/** The maximum size in bytes of the pixel data in one call. */
const MOST_IMAGE_BYTES = 16 * 1024 * 1024;
/**
 * A value above this limit means that the program does not use the range from 0 to 1. Image filters may produce values slightly above 1.
 */
const MOST_FRACTION = 2;

export interface Pictures {
  readonly count: number;
  readonly height: number;
  readonly width: number;
  readonly channels: number;
  /** The pixels as numbers from 0 to 255: picture by picture, row by row, with each pixel's channels side by side. */
  readonly pixels: Uint8Array;
}

/**
 * Extracts the pictures from an image tensor.
 * @returns the pictures. `isWhite` is true if floating-point numbers far exceed the range from 0 to 1, so that the image is mostly white.
 * @throws TonyError SUMMARY_INVALID if the tensor is not an image.
 */
export function picturesOf(tag: string, image: tfjs.Tensor | Column, max: number): Pictures & { readonly isWhite: boolean } {
  const shape = picturesShape(image.shape);
  if (shape === null) {
    throw new TonyError('SUMMARY_INVALID', `the image ${tag} has the shape [${image.shape.join(', ')}]`, {
      hint: 'Use [height, width], [height, width, channels] or [n, height, width, channels], with 1 to 4 channels.',
    });
  }
  const count = Math.min(shape.count, max);
  const length = count * shape.height * shape.width * shape.channels;
  if (length > MOST_IMAGE_BYTES) {
    throw new TonyError('SUMMARY_INVALID', `the image ${tag} has ${length} values; the maximum is ${MOST_IMAGE_BYTES}`, {
      hint: 'Reduce its size (tf.image.resizeBilinear), or pass a smaller max.',
    });
  }
  const values = isTensor(image) ? firstOf(tag, image, shape.count, count) : image.values;
  if (values.length < length) {
    throw new TonyError('SUMMARY_INVALID', `the image ${tag} has ${values.length} values, but its shape requires ${length}`);
  }
  const fractions = isTensor(image) ? image.dtype !== 'int32' : image.values instanceof Float32Array;
  const isWhite = fractions && anyAbove(MOST_FRACTION, values, length);
  return { ...shape, count, pixels: toBytes(values, length, fractions ? 255 : 1), isWhite };
}

function firstOf(tag: string, batch: tfjs.Tensor, count: number, wanted: number): ArrayLike<number> {
  if (wanted === count) {
    return numbersOf(tag, batch);
  }
  const first = batch.slice([0, 0, 0, 0], [wanted, ...batch.shape.slice(1)]);
  try {
    return numbersOf(tag, first);
  } finally {
    first.dispose();
  }
}

function anyAbove(limit: number, values: ArrayLike<number>, length: number): boolean {
  for (let index = 0; index < length; index++) {
    if ((values[index] as number) > limit) {
      return true;
    }
  }
  return false;
}

/**
 * Returns the picture layout for a tensor shape: [h, w], [h, w, c] or [n, h, w, c] with 1 to 4 channels and non-empty pictures. Returns
 * null for any other shape.
 */
export function picturesShape(shape: readonly number[]): Omit<Pictures, 'pixels'> | null {
  const [count, height, width, channels] = shape.length === 4 ? shape : shape.length === 3 ? [1, ...shape] : [1, ...shape, 1];
  if (count === undefined || height === undefined || width === undefined || channels === undefined || shape.length > 4) {
    return null;
  }
  return height > 0 && width > 0 && channels >= 1 && channels <= 4 ? { count, height, width, channels } : null;
}

function toBytes(values: ArrayLike<number>, length: number, scale: number): Uint8Array {
  const bytes = new Uint8ClampedArray(length);
  for (let index = 0; index < length; index++) {
    bytes[index] = (values[index] as number) * scale;
  }
  return new Uint8Array(bytes.buffer);
}

/** Encodes pictures in the images plugin's format, which is a list of strings: the width, the height, and each picture as a PNG. */
export async function imageValue(tag: string, pictures: Pictures): Promise<TensorValue> {
  const { count, height, width, channels, pixels } = pictures;
  const size = height * width * channels;
  const files = await Promise.all(
    Array.from({ length: count }, (_, index) => encodePng(width, height, channels, pixels.subarray(index * size, (index + 1) * size))),
  );
  const strings = [Buffer.from(String(width)), Buffer.from(String(height)), ...files];
  return { tag, plugin: 'images', content: new Uint8Array(0), tensor: stringTensor([strings.length], strings) };
}
