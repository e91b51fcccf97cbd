/**
 * Numbers that the ring adds to while bytes arrive.
 *
 *   WebAssembly.Memory (or a plain ArrayBuffer where there is no SIMD)
 *   +--------------------+----------------------------------------+
 *   | scratch, 512 KiB   | the vector, 4 bytes a number           |
 *   +--------------------+----------------------------------------+
 *   0                    PIECE_BYTES
 *
 * The kernel writes what comes from the left neighbour into scratch; every full piece is added into place. Each vector has a memory
 * of its own: growing a shared one would detach the views that users hold.
 */
export interface RingVector {
  readonly numbers: Float32Array<ArrayBuffer>;
  /** The same memory as `numbers`. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly scratch: Uint8Array<ArrayBuffer>;
  /** numbers[at + i] += scratch[i] for i < count. */
  add(at: number, count: number): void;
  /** numbers[i] *= factor for from <= i < to. */
  scale(from: number, to: number, factor: number): void;
}

/** How much is added and sent on at a time: small enough for the second-level cache, large enough that calls cost nothing. */
export const PIECE_BYTES = 512 * 1024;

/** A length in bytes travels as a u32, and a WebAssembly.Memory ends at 4 GiB. */
export const MAX_NUMBERS = (2 ** 32 - 2 * PIECE_BYTES) / 4 - 1;

const PAGE_BYTES = 64 * 1024;

/*
 * The module, in text form. `to` and `from` are byte addresses, `count` numbers; alignment is 4, so any address of a float will do.
 *
 * (module
 *   (import "ring" "memory" (memory 1))
 *   (func (export "add") (param $to i32) (param $from i32) (param $count i32)
 *     (local $end i32)
 *     (local.set $end (i32.add (local.get $to) (i32.shl (i32.and (local.get $count) (i32.const -16)) (i32.const 2))))
 *     (block $tail
 *       (loop $wide                                       ;; sixteen numbers a turn
 *         (br_if $tail (i32.ge_u (local.get $to) (local.get $end)))
 *         (v128.store (local.get $to) (f32x4.add (v128.load (local.get $to)) (v128.load (local.get $from))))
 *         ... the same with offset=16, offset=32, offset=48
 *         (local.set $to (i32.add (local.get $to) (i32.const 64)))
 *         (local.set $from (i32.add (local.get $from) (i32.const 64)))
 *         (br $wide)))
 *     (local.set $end (i32.add (local.get $end) (i32.shl (i32.and (local.get $count) (i32.const 15)) (i32.const 2))))
 *     (block $done
 *       (loop $one                                        ;; what is left, one by one
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

/** What is used of WebAssembly: Node's type declarations know no more than its name. */
interface WebAssemblyApi {
  validate(bytes: Uint8Array): boolean;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Memory: new (pages: { initial: number }) => { readonly buffer: ArrayBuffer };
  readonly Instance: new (
    module: object,
    imports: { ring: { memory: object } },
  ) => { readonly exports: { add(to: number, from: number, count: number): void } };
}

const wasm = (globalThis as unknown as { WebAssembly?: WebAssemblyApi }).WebAssembly;

let compiled: object | null | undefined;

/** null where WebAssembly or its SIMD instructions are missing. */
function addModule(): object | null {
  if (compiled === undefined) {
    compiled = wasm?.validate(MODULE_BYTES) ? new wasm.Module(MODULE_BYTES) : null;
  }
  return compiled;
}

export function createVector(length: number): RingVector {
  const module = addModule();
  return wasm === undefined || module === null ? createPlainVector(length) : createSimdVector(length, wasm, module);
}

/** With a JavaScript loop: about half as fast as SIMD. */
export function createPlainVector(length: number): RingVector {
  const views = viewsOf(new ArrayBuffer(PIECE_BYTES + length * 4), length);
  const scratch = new Float32Array(views.scratch.buffer, 0, PIECE_BYTES / 4);
  return {
    ...views,
    add(at, count) {
      const numbers = views.numbers;
      for (let index = 0; index < count; index++) {
        numbers[at + index] = (numbers[at + index] as number) + (scratch[index] as number);
      }
    },
  };
}

function createSimdVector(length: number, wasm: WebAssemblyApi, module: object): RingVector {
  const memory = new wasm.Memory({ initial: Math.ceil((PIECE_BYTES + length * 4) / PAGE_BYTES) });
  const { add } = new wasm.Instance(module, { ring: { memory } }).exports;
  // Byte addresses are i32 for JavaScript: beyond 2 GiB they wrap into the negative, which the module reads as unsigned again.
  return { ...viewsOf(memory.buffer, length), add: (at, count) => add(PIECE_BYTES + at * 4, 0, count) };
}

function viewsOf(buffer: ArrayBuffer, length: number): Omit<RingVector, 'add'> {
  const numbers = new Float32Array(buffer, PIECE_BYTES, length);
  return {
    numbers,
    bytes: new Uint8Array(buffer, PIECE_BYTES, length * 4),
    scratch: new Uint8Array(buffer, 0, PIECE_BYTES),
    scale(from, to, factor) {
      for (let index = from; index < to; index++) {
        numbers[index] = (numbers[index] as number) * factor;
      }
    },
  };
}
