/**
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4) with the reflected polynomial 0x82f63b78.
 *
 * Table k contains the contribution of a byte that precedes k more bytes. With 16 tables, the algorithm processes 16 bytes at a time
 * ("slicing"). Checksums limit how fast records can be read, so a WebAssembly module computes them, more than twice as fast as
 * JavaScript. JavaScript handles short inputs, and all inputs if WebAssembly is unavailable (`node --jitless`).
 *
 *   WebAssembly.Memory
 *   +------------------+-----------------------------------+
 *   | T0 ... T15       | the bytes to sum                  |
 *   +------------------+-----------------------------------+
 *   0                  WINDOW_AT                           WINDOW_AT + WINDOW_BYTES
 */
const TABLES = 16;
const TABLE_BYTES = 1024;
const WINDOW_AT = TABLES * TABLE_BYTES;
const WINDOW_BYTES = 1024 * 1024 - WINDOW_AT;
const PAGE_BYTES = 64 * 1024;

/** Minimum length of an input, in bytes, for which WebAssembly is faster than JavaScript. */
const LEAST_BYTES = 64;

const TABLE = createTables();

function createTables(): Int32Array {
  const tables = new Int32Array((TABLES * TABLE_BYTES) / 4);
  for (let byte = 0; byte < 256; byte++) {
    let value = byte;
    for (let bit = 0; bit < 8; bit++) {
      value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
    }
    tables[byte] = value;
  }
  for (let at = 256; at < tables.length; at++) {
    const before = tables[at - 256] as number;
    tables[at] = (before >>> 8) ^ (tables[before & 0xff] as number);
  }
  return tables;
}

/*
 * The module in text form. Addresses are in bytes; a table's entry for the byte at bits n to n + 7 of a word is at (word >> n - 2) & 1020.
 *
 * (module
 *   (import "crc32c" "memory" (memory 1))
 *   (func (export "update") (param $crc i32) (param $at i32) (param $to i32) (result i32)
 *     (local $a i32) (local $b i32) (local $c i32) (local $d i32)
 *     (block $tail (loop $wide                                        ;; 16 bytes per iteration
 *       (br_if $tail (i32.gt_u (i32.add (local.get $at) (i32.const 16)) (local.get $to)))
 *       (local.set $b (i32.load offset=4 (local.get $at)))
 *       ... $c and $d with offset=8 and offset=12
 *       (local.set $a (i32.xor (local.get $crc) (i32.load (local.get $at))))
 *       (local.set $crc (i32.xor                                       ;; all 16 bytes; $a last, as it needs the previous result
 *         ... (i32.load offset=11264 (i32.and (i32.shl (local.get $b) (i32.const 2)) (i32.const 1020)))       ;; T11
 *         ... (i32.load offset=10240 (i32.and (i32.shr_u (local.get $b) (i32.const 6)) (i32.const 1020)))     ;; T10
 *         ... (i32.load offset=14336 (i32.and (i32.shr_u (local.get $a) (i32.const 6)) (i32.const 1020)))))   ;; T14
 *       (local.set $at (i32.add (local.get $at) (i32.const 16)))
 *       (br $wide)))
 *     (block $rest ... the same once with 8 bytes, T7 to T0)
 *     (block $done (loop $one                                         ;; the remaining bytes, one by one
 *       (br_if $done (i32.ge_u (local.get $at) (local.get $to)))
 *       (local.set $crc (i32.xor (i32.shr_u (local.get $crc) (i32.const 8))
 *         (i32.load (i32.shl (i32.and (i32.xor (local.get $crc) (i32.load8_u (local.get $at))) (i32.const 255)) (i32.const 2)))))
 *       (local.set $at (i32.add (local.get $at) (i32.const 1)))
 *       (br $one)))
 *     (local.get $crc)))
 */
const MODULE_BYTES = Buffer.from(
  'AGFzbQEAAAABCAFgA39/fwF/AhIBBmNyYzMyYwZtZW1vcnkCAAEDAgEABwoBBnVwZGF0ZQAACuYDAeMDAQR/AkADQCABQRBqIAJLDQEgASgCBCEEIAEoAgghBSABKAIMIQYg' +
    'ACABKAIAcyEDIARBAnRB/AdxKAKAWCAEQQZ2QfwHcSgCgFBzIARBDnZB/AdxKAKASCAEQRZ2QfwHcSgCgEBzcyAFQQJ0QfwHcSgCgDggBUEGdkH8B3EoAoAwcyAFQQ52QfwH' +
    'cSgCgCggBUEWdkH8B3EoAoAgc3NzIAZBAnRB/AdxKAKAGCAGQQZ2QfwHcSgCgBBzIAZBDnZB/AdxKAKACCAGQRZ2QfwHcSgCAHNzcyADQQJ0QfwHcSgCgHggA0EGdkH8B3Eo' +
    'AoBwcyADQQ52QfwHcSgCgGggA0EWdkH8B3EoAoBgc3NzIQAgAUEQaiEBDAALCwJAIAFBCGogAksNACAAIAEoAgBzIQMgASgCBCEEIARBAnRB/AdxKAKAGCAEQQZ2QfwHcSgC' +
    'gBBzIARBDnZB/AdxKAKACCAEQRZ2QfwHcSgCAHNzIANBAnRB/AdxKAKAOCADQQZ2QfwHcSgCgDBzIANBDnZB/AdxKAKAKCADQRZ2QfwHcSgCgCBzc3MhACABQQhqIQELAkAD' +
    'QCABIAJPDQEgAEEIdiAAIAEtAABzQf8BcUECdCgCAHMhACABQQFqIQEMAAsLIAAL',
  'base64',
);

/** Parts of the WebAssembly API that this file uses. The Node.js type declarations do not contain them. */
interface WebAssemblyApi {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Memory: new (pages: { initial: number }) => { readonly buffer: ArrayBuffer };
  readonly Instance: new (
    module: object,
    imports: { crc32c: { memory: object } },
  ) => { readonly exports: { update(crc: number, at: number, to: number): number } };
}

interface Kernel {
  readonly window: Uint8Array;
  update(crc: number, at: number, to: number): number;
}

/** The WebAssembly module. Undefined before the first use, and null if WebAssembly is unavailable. */
let kernel: Kernel | null | undefined;
/** Identifies the call to `maskedSumsOf` whose bytes are in the window. */
let owner: object | null = null;

function kernelOf(wasm: WebAssemblyApi | undefined): Kernel | null {
  if (wasm === undefined) {
    return null;
  }
  const memory = new wasm.Memory({ initial: Math.ceil((WINDOW_AT + WINDOW_BYTES) / PAGE_BYTES) });
  new Int32Array(memory.buffer).set(TABLE);
  const { update } = new wasm.Instance(new wasm.Module(MODULE_BYTES), { crc32c: { memory } }).exports;
  return { window: new Uint8Array(memory.buffer, WINDOW_AT, WINDOW_BYTES), update };
}

function loadKernel(): Kernel | null {
  kernel ??= kernelOf((globalThis as unknown as { WebAssembly?: WebAssemblyApi }).WebAssembly);
  return kernel;
}

/** Returns the CRC-32C of `bytes` from `start` to `end` (exclusive). */
export function crc32c(bytes: Uint8Array, start = 0, end = bytes.length): number {
  const module = end - start < LEAST_BYTES ? null : loadKernel();
  if (module === null) {
    return plainCrc32c(bytes, start, end);
  }
  owner = null;
  let crc = -1;
  for (let at = start; at < end; at += WINDOW_BYTES) {
    const length = Math.min(WINDOW_BYTES, end - at);
    module.window.set(bytes.subarray(at, at + length));
    crc = module.update(crc, WINDOW_AT, WINDOW_AT + length);
  }
  return ~crc >>> 0;
}

/** Computes the same checksum as `crc32c`, but always in JavaScript. */
export function plainCrc32c(bytes: Uint8Array, start = 0, end = bytes.length): number {
  const table = TABLE;
  let crc = -1;
  let at = start;
  for (; at + 8 <= end; at += 8) {
    crc ^= (bytes[at] as number) | ((bytes[at + 1] as number) << 8) | ((bytes[at + 2] as number) << 16) | ((bytes[at + 3] as number) << 24);
    crc =
      (table[0x700 + (crc & 0xff)] as number) ^
      (table[0x600 + ((crc >>> 8) & 0xff)] as number) ^
      (table[0x500 + ((crc >>> 16) & 0xff)] as number) ^
      (table[0x400 + (crc >>> 24)] as number) ^
      (table[0x300 + (bytes[at + 4] as number)] as number) ^
      (table[0x200 + (bytes[at + 5] as number)] as number) ^
      (table[0x100 + (bytes[at + 6] as number)] as number) ^
      (table[bytes[at + 7] as number] as number);
  }
  for (; at < end; at++) {
    crc = (crc >>> 8) ^ (table[(crc ^ (bytes[at] as number)) & 0xff] as number);
  }
  return ~crc >>> 0;
}

/**
 * Returns the CRC-32C in the masked form that TFRecord files store: rotated, and with a constant added. A plain CRC would be a poor
 * checksum for data that itself contains CRCs.
 */
export function maskedCrc32c(bytes: Uint8Array, start = 0, end = bytes.length): number {
  return masked(crc32c(bytes, start, end));
}

/**
 * Returns a function that computes the masked checksum of part of `bytes`. For many parts, this function is faster than `maskedCrc32c`,
 * because it copies `bytes` to the module only once. The bytes must not change while the function is in use.
 */
export function maskedSumsOf(bytes: Uint8Array): (start: number, end: number) => number {
  const module = bytes.length < LEAST_BYTES || bytes.length > WINDOW_BYTES ? null : loadKernel();
  if (module === null) {
    return (start, end) => maskedCrc32c(bytes, start, end);
  }
  const me = {};
  return (start, end) => {
    if (owner !== me) {
      module.window.set(bytes);
      owner = me;
    }
    return masked(~module.update(-1, WINDOW_AT + start, WINDOW_AT + end));
  };
}

function masked(crc: number): number {
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}
