import { encodePng } from '../encoding/png.ts';
import { stringTensor, type TensorValue } from './event-file.ts';

/** One or more pictures of the same size. */
export interface Pictures {
  readonly count: number;
  readonly height: number;
  readonly width: number;
  readonly channels: number;
  /** Pixels in picture and row order; 0 to 255. */
  readonly pixels: Uint8Array;
}

/** @returns null for shapes that are neither [h, w], [h, w, c] nor [n, h, w, c] with 1 to 4 channels, and for empty pictures. */
export function picturesShape(shape: readonly number[]): Omit<Pictures, 'pixels'> | null {
  const [count, height, width, channels] = shape.length === 4 ? shape : shape.length === 3 ? [1, ...shape] : [1, ...shape, 1];
  if (count === undefined || height === undefined || width === undefined || channels === undefined || shape.length > 4) {
    return null;
  }
  return height > 0 && width > 0 && channels >= 1 && channels <= 4 ? { count, height, width, channels } : null;
}

/** @param scale the factor from values to bytes; results outside 0 to 255 are clipped, and NaN becomes 0. */
export function toBytes(values: ArrayLike<number>, length: number, scale: number): Uint8Array {
  const bytes = new Uint8ClampedArray(length);
  for (let index = 0; index < length; index++) {
    bytes[index] = (values[index] as number) * scale;
  }
  return new Uint8Array(bytes.buffer);
}

/** The plugin expects strings: width, height, then each picture as a PNG. */
export async function imageValue(tag: string, pictures: Pictures): Promise<TensorValue> {
  const { count, height, width, channels, pixels } = pictures;
  const size = height * width * channels;
  const files = await Promise.all(
    Array.from({ length: count }, (_, index) => encodePng(width, height, channels, pixels.subarray(index * size, (index + 1) * size))),
  );
  const strings = [Buffer.from(String(width)), Buffer.from(String(height)), ...files];
  return { tag, plugin: 'images', content: new Uint8Array(0), tensor: stringTensor([strings.length], strings) };
}
