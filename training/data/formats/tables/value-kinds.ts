import { decodeUtf8 } from '../utf8.ts';

export type TableValue =
  | number
  | boolean
  | string
  | Buffer
  | Int32Array
  | Float32Array
  | Float64Array
  | readonly TableValue[]
  | { readonly [name: string]: TableValue };

/*
 * The types of values in table files, and the only place where stored values become elements of a dataset. The readers of the formats map
 * their types to these kinds, so that all formats yield the same values:
 *
 *   kind                stored as                                      element
 *   boolean, float,
 *   double              boolean, number                                unchanged
 *   integer             number or bigint: integers, days since 1970    number, if it represents the integer exactly
 *   uint32, uint64      the same, but the sign bit has a value         number, if it represents the integer exactly
 *   float16             2 bytes, little-endian                         number
 *   ticks               number or bigint: times and timestamps         milliseconds
 *   decimal             number, bigint, or bytes in two's complement   the nearest number
 *   text                string or UTF-8 bytes                          string
 *   uuid                16 bytes                                       string, 8-4-4-4-12 hexadecimal digits
 *   duration            12 bytes: three uint32, little-endian          { months, days, milliseconds }
 *   bytes               bytes                                          Buffer
 *   null                always missing                                 the value of `fill`
 *   list                array                                          typed array for numbers, otherwise array
 *   fields              array with one value for each field            object
 */
export type ValueKind = ScalarKind | { readonly list: ValueKind } | { readonly fields: readonly FieldKind[] };

export type ScalarKind =
  | 'boolean'
  | 'integer'
  | 'uint32'
  | 'uint64'
  | 'float'
  | 'double'
  | 'float16'
  | 'text'
  | 'uuid'
  | 'duration'
  | 'bytes'
  | 'null'
  | { readonly ticksPerMillisecond: number }
  | { readonly decimalScale: number };

export interface FieldKind {
  readonly name: string;
  readonly kind: ValueKind;
}

export const MILLISECONDS: ScalarKind = { ticksPerMillisecond: 1 };
export const MICROSECONDS: ScalarKind = { ticksPerMillisecond: 1000 };
export const NANOSECONDS: ScalarKind = { ticksPerMillisecond: 1_000_000 };

/** Largest scale and size of a decimal. No known writer exceeds 76 digits; a limit bounds the work for each value. */
const MAX_DECIMAL_SCALE = 256;
const MAX_DECIMAL_BYTES = 128;

/** Returns the kind of a decimal, or null if the scale is impossible. */
export function decimalKind(scale: number | undefined): ScalarKind | null {
  const digits = scale ?? 0;
  return Number.isInteger(digits) && digits >= 0 && digits <= MAX_DECIMAL_SCALE ? { decimalScale: digits } : null;
}

type NumberArray = typeof Int32Array | typeof Float32Array | typeof Float64Array;

/** Returns the typed array that holds a list of such values, or null. TensorFlow.js tensors can hold only 32-bit integers. */
export function arrayOf(kind: ValueKind): NumberArray | null {
  switch (kind) {
    case 'integer':
    case 'uint32':
    case 'uint64':
      return Int32Array;
    case 'float':
    case 'float16':
      return Float32Array;
    case 'double':
      return Float64Array;
    default:
      return typeof kind === 'object' && ('ticksPerMillisecond' in kind || 'decimalScale' in kind) ? Float64Array : null;
  }
}

/** Returns a function that converts one stored value. The function throws an Error if no element can hold the value. */
export function scalarConverter(kind: ScalarKind): (stored: unknown) => TableValue {
  if (typeof kind === 'object') {
    return 'decimalScale' in kind ? decimalConverter(kind.decimalScale) : ticksConverter(kind.ticksPerMillisecond);
  }
  switch (kind) {
    case 'integer':
      return integer;
    case 'uint32':
      return (stored) => Number(stored) >>> 0;
    case 'uint64':
      return (stored) => integer(BigInt.asUintN(64, BigInt(stored as bigint)));
    case 'float16':
      return float16;
    case 'text':
      return (stored) => (typeof stored === 'string' ? stored : decodeUtf8(stored as Uint8Array));
    case 'uuid':
      return (stored) =>
        viewOf(stored, 16)
          .toString('hex')
          .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    case 'duration':
      return duration;
    case 'bytes':
      return (stored) => viewOf(stored);
    case 'null':
      return () => {
        throw new Error('a column without a type contains a value');
      };
    default:
      return (stored) => stored as TableValue;
  }
}

function integer(stored: unknown): number {
  return exact(Number(stored), stored);
}

function exact(number: number, stored: unknown): number {
  if (!(Math.abs(number) <= Number.MAX_SAFE_INTEGER)) {
    throw new Error(`the value ${stored} is outside the range in which a number represents every integer exactly`);
  }
  return number;
}

function ticksConverter(ticksPerMillisecond: number): (stored: unknown) => number {
  const divisor = BigInt(ticksPerMillisecond);
  return (stored) => {
    const number = Number(stored);
    if (Number.isSafeInteger(number) || ticksPerMillisecond === 1) {
      return exact(number / ticksPerMillisecond, stored);
    }
    const ticks = BigInt(stored as bigint);
    // Both terms are exact or rounded far below the precision of the sum, so the sum is the number nearest to the quotient.
    return exact(Number(ticks / divisor) + Number(ticks % divisor) / ticksPerMillisecond, stored);
  };
}

function decimalConverter(scale: number): (stored: unknown) => number {
  // A power of ten beyond 10^22 is not exact.
  const divisor = scale <= 22 ? Number(`1e${scale}`) : null;
  return (stored) => {
    const unscaled = stored instanceof Uint8Array ? signedInteger(stored) : (stored as number | bigint);
    const number = Number(unscaled);
    const isExact = divisor !== null && Number.isSafeInteger(number);
    return exact(isExact ? number / divisor : Number(`${unscaled}e-${scale}`), `${unscaled}e-${scale}`);
  };
}

/** Reads an integer in two's complement, with the most significant byte first. */
function signedInteger(bytes: Uint8Array): bigint {
  if (bytes.length > MAX_DECIMAL_BYTES) {
    throw new Error(`a decimal has ${bytes.length} bytes; the maximum is ${MAX_DECIMAL_BYTES}`);
  }
  return bytes.length === 0 ? 0n : BigInt.asIntN(8 * bytes.length, BigInt(`0x${viewOf(bytes).toString('hex')}`));
}

function float16(stored: unknown): number {
  const bits = viewOf(stored, 2).readUInt16LE();
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) {
    return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  }
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function duration(stored: unknown): TableValue {
  const bytes = viewOf(stored, 12);
  return { months: bytes.readUInt32LE(0), days: bytes.readUInt32LE(4), milliseconds: bytes.readUInt32LE(8) };
}

function viewOf(stored: unknown, length?: number): Buffer {
  const bytes = stored as Uint8Array;
  if (length !== undefined && bytes.length !== length) {
    throw new Error(`a value has ${bytes.length} bytes instead of ${length}`);
  }
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
