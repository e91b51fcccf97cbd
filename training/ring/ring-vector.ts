import { type HalfKernels, halfKernels, plainHalfKernels } from './ring-float16.ts';
import { createMemory, instantiate } from './wasm.ts';

/**
 * A vector that the ring sums in place.
 *
 *   WebAssembly.Memory (or a plain ArrayBuffer without SIMD)
 *   +--------------------+----------------------------------------+---------------------------------------------+
 *   | scratch, 512 KiB   | the vector, 4 bytes per number         | optional float16 image, 2 bytes per number  |
 *   +--------------------+----------------------------------------+---------------------------------------------+
 *   0                    PIECE_BYTES
 *
 * Data from the left neighbour arrives in `scratch`. When a piece is complete, the ring adds it to the vector. Each vector has its own
 * memory, because growing a memory detaches all views of it.
 */
export interface RingVector {
  readonly numbers: Float32Array<ArrayBuffer>;
  readonly float32: Lane;
  readonly float16: Lane | null;
}

/** The vector in one network format. Number i begins at `image[i * width]`. */
export interface Lane {
  /** Bytes per number. */
  readonly width: 2 | 4;
  readonly image: Uint8Array<ArrayBuffer>;
  readonly scratch: Uint8Array<ArrayBuffer>;
  /** numbers[at + i] += scratch[i] for i < count */
  add(at: number, count: number): void;
  /** numbers[i] *= factor for from <= i < to */
  scale(from: number, to: number, factor: number): void;
  /** image[i] = numbers[i], converted to this format, for from <= i < to */
  encode(from: number, to: number): void;
  /** numbers[i] = image[i], converted to float32, for from <= i < to */
  decode(from: number, to: number): void;
}

/** The number of bytes that the ring adds and forwards at once. A piece of this size fits into the L2 cache. */
export const PIECE_BYTES = 512 * 1024;

/** The maximum length of a vector. Frames store the length as u32, and WebAssembly.Memory is limited to 4 GiB. */
export const MAX_NUMBERS = (2 ** 32 - 2 * PIECE_BYTES) / 4 - 1;
/** The maximum length of a vector with a float16 image. */
export const MAX_NUMBERS_WITH_IMAGE = (2 ** 32 - 2 * PIECE_BYTES) / 6 - 1;

/*
 * The WebAssembly module in text form. `to` and `from` are byte addresses, aligned to 4 bytes; `count` is a number of elements.
 *
 * (module
 *   (import "ring" "memory" (memory 1))
 *   (func (export "add") (param $to i32) (param $from i32) (param $count i32)
 *     (local $end i32)
 *     (local.set $end (i32.add (local.get $to) (i32.shl (i32.and (local.get $count) (i32.const -16)) (i32.const 2))))
 *     (block $tail
 *       (loop $wide                                       ;; 16 numbers per iteration
 *         (br_if $tail (i32.ge_u (local.get $to) (local.get $end)))
 *         (v128.store (local.get $to) (f32x4.add (v128.load (local.get $to)) (v128.load (local.get $from))))
 *         ... the same with offset=16, offset=32, offset=48
 *         (local.set $to (i32.add (local.get $to) (i32.const 64)))
 *         (local.set $from (i32.add (local.get $from) (i32.const 64)))
 *         (br $wide)))
 *     (local.set $end (i32.add (local.get $end) (i32.shl (i32.and (local.get $count) (i32.const 15)) (i32.const 2))))
 *     (block $done
 *       (loop $one                                        ;; the rest, one by one
 *         (br_if $done (i32.ge_u (local.get $to) (local.get $end)))
 *         (f32.store (local.get $to) (f32.add (f32.load (local.get $to)) (f32.load (local.get $from))))
 *         (local.set $to (i32.add (local.get $to) (i32.const 4)))
 *         (local.set $from (i32.add (local.get $from) (i32.const 4)))
 *         (br $one)))))
 */
const MODULE_BYTES = Buffer.from(
  'AGFzbQEAAAABBwFgA39/fwACEAEEcmluZwZtZW1vcnkCAAEDAgEABwcBA2FkZAAACsEBAb4BAQF/IAAgAkFwcUECdGohAwJAA0AgACADTw0BIAAgAP0AAgAgAf0A' +
    'AgD95AH9CwIAIAAgAP0AAhAgAf0AAhD95AH9CwIQIAAgAP0AAiAgAf0AAiD95AH9CwIgIAAgAP0AAjAgAf0AAjD95AH9CwIwIABBwABqIQAgAUHAAGohAQwACwsg' +
    'AyACQQ9xQQJ0aiEDAkADQCAAIANPDQEgACAAKgIAIAEqAgCSOAIAIABBBGohACABQQRqIQEMAAsLCw==',
  'base64',
);

interface AddKernel {
  /** numbers[to ...] += numbers[from ...]. `to` and `from` are byte addresses. `count` is an element count. */
  add(to: number, from: number, count: number): void;
}

/** Creates a vector. @param image true to add a float16 image, which float16 calls require. */
export function createVector(length: number, image = false): RingVector {
  const memory = createMemory(sizeOf(length, image));
  const kernel = instantiate<AddKernel>(MODULE_BYTES, memory);
  if (kernel === null) {
    return createPlainVector(length, image);
  }
  // Addresses above 2 GiB are passed as negative i32 values. The module interprets them as unsigned.
  return vectorIn(memory.buffer, length, kernel, image ? halfKernels(memory) : null);
}

/** Creates a vector that adds in plain JavaScript, about half as fast as SIMD. */
export function createPlainVector(length: number, image = false): RingVector {
  const buffer = new ArrayBuffer(sizeOf(length, image));
  return vectorIn(buffer, length, plainAdd(buffer), image ? plainHalfKernels(buffer) : null);
}

function sizeOf(length: number, image: boolean): number {
  return PIECE_BYTES + length * 4 + (image ? length * 2 : 0);
}

function plainAdd(buffer: ArrayBuffer): AddKernel {
  const all = new Float32Array(buffer, 0, buffer.byteLength >>> 2);
  return {
    add(to, from, count) {
      for (let index = 0; index < count; index++) {
        all[to / 4 + index] = (all[to / 4 + index] as number) + (all[from / 4 + index] as number);
      }
    },
  };
}

const NOTHING = () => {};

function vectorIn(buffer: ArrayBuffer, length: number, kernel: AddKernel, half: HalfKernels | null): RingVector {
  const numbers = new Float32Array(buffer, PIECE_BYTES, length);
  const imageAt = PIECE_BYTES + length * 4;
  const shared = {
    scratch: new Uint8Array(buffer, 0, PIECE_BYTES),
    scale(from: number, to: number, factor: number) {
      for (let index = from; index < to; index++) {
        numbers[index] = (numbers[index] as number) * factor;
      }
    },
  };
  const placeOf = (index: number) => PIECE_BYTES + index * 4;
  return {
    numbers,
    float32: {
      ...shared,
      width: 4,
      image: new Uint8Array(buffer, PIECE_BYTES, length * 4),
      add: (at, count) => kernel.add(placeOf(at), 0, count),
      encode: NOTHING,
      decode: NOTHING,
    },
    float16: half && {
      ...shared,
      width: 2,
      image: new Uint8Array(buffer, imageAt, length * 2),
      add: (at, count) => half.addHalf(placeOf(at), 0, count),
      encode: (from, to) => half.encode(imageAt + from * 2, placeOf(from), to - from),
      decode: (from, to) => half.decode(placeOf(from), imageAt + from * 2, to - from),
    },
  };
}
