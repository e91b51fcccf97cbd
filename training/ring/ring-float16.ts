/*
 * Converts float32 to IEEE 754 binary16 and back:
 *
 *   | sign 1 bit | exponent 5 bits, bias 15 | fraction 10 bits |
 *
 * Rounds to nearest, ties to even. Finite numbers beyond +-65504 become +-65504, so a large gradient is clipped instead of becoming
 * infinite.
 */
import { instantiate } from './wasm.ts';

/** Functions that convert numbers within one memory. `to` and `from` are byte offsets. `count` is an element count. */
export interface HalfKernels {
  /** float16[to ...] = float32[from ...] */
  encode(to: number, from: number, count: number): void;
  /** float32[to ...] = float16[from ...] */
  decode(to: number, from: number, count: number): void;
  /** float32[to ...] += float16[from ...] */
  addHalf(to: number, from: number, count: number): void;
}

/** The WebAssembly module that wat2wasm assembles from ring-float16.wat. */
const MODULE_BYTES = Buffer.from(
  'AGFzbQEAAAABBwFgA39/fwACEAEEcmluZwZtZW1vcnkCAAEDBAMAAAAHHQMGZW5jb2RlAAAGZGVjb2RlAAEHYWRkSGFsZgACCvsNA5gFAgF/B3sgAkEDdiEDAkADQC' +
    'ADRQ0BIAH9AAIAIgT9DAAAAIAAAACAAAAAgAAAAID9TiEFIAQgBf1RIQQgBP0MAACAfwAAgH8AAIB/AACAf/0/IQYgBP0MAOB/RwDgf0cA4H9HAOB/R/22ASEHIAf9' +
    'DP8PAMj/DwDI/w8AyP8PAMj9rgEgB0EN/a0B/QwBAAAAAQAAAAEAAAABAAAA/U79rgFBDf2tASEIIAf9DAAAAD8AAAA/AAAAPwAAAD/95AH9DAAAAD8AAAA/AAAAPw' +
    'AAAD/9sQEgCCAH/QwAAIA4AACAOAAAgDgAAIA4/Tn9UiEI/QwAfAAAAHwAAAB8AAAAfAAA/QwAAgAAAAIAAAACAAAAAgAAIAT9DAAAgH8AAIB/AACAfwAAgH/9O/1O' +
    '/VAgCCAG/VIhCCAIIAVBEP2tAf1QIQkgAf0AAhAiBP0MAAAAgAAAAIAAAACAAAAAgP1OIQUgBCAF/VEhBCAE/QwAAIB/AACAfwAAgH8AAIB//T8hBiAE/QwA4H9HAO' +
    'B/RwDgf0cA4H9H/bYBIQcgB/0M/w8AyP8PAMj/DwDI/w8AyP2uASAHQQ39rQH9DAEAAAABAAAAAQAAAAEAAAD9Tv2uAUEN/a0BIQggB/0MAAAAPwAAAD8AAAA/AAAA' +
    'P/3kAf0MAAAAPwAAAD8AAAA/AAAAP/2xASAIIAf9DAAAgDgAAIA4AACAOAAAgDj9Of1SIQj9DAB8AAAAfAAAAHwAAAB8AAD9DAACAAAAAgAAAAIAAAACAAAgBP0MAA' +
    'CAfwAAgH8AAIB/AACAf/07/U79UCAIIAb9UiEIIAggBUEQ/a0B/VAhCiAAIAkgCv2GAf0LAQAgAEEQaiEAIAFBIGohASADQQFrIQMMAAsLC6UEAgF/BHsgAkEDdiED' +
    'AkADQCADRQ0BIAH9AAEAIQQgBP2pASEFIAX9DP9/AAD/fwAA/38AAP9/AAD9TkEN/asBIQYgBv0MAACADwAAgA8AAIAPAACAD/1OIQcgBv0MAAAAOAAAADgAAAA4AA' +
    'AAOP2uASEGIAb9DAAAADgAAAA4AAAAOAAAADggB/0MAACADwAAgA8AAIAPAACAD/03/U79rgEhBiAG/QwAAIAAAACAAAAAgAAAAIAA/a4B/QwAAIA4AACAOAAAgDgA' +
    'AIA4/eUBIAYgB/0MAAAAAAAAAAAAAAAAAAAAAP03/VIhBiAGIAX9DACAAAAAgAAAAIAAAACAAAD9TkEQ/asB/VAhBiAAIAb9CwIAIAT9qgEhBSAF/Qz/fwAA/38AAP' +
    '9/AAD/fwAA/U5BDf2rASEGIAb9DAAAgA8AAIAPAACADwAAgA/9TiEHIAb9DAAAADgAAAA4AAAAOAAAADj9rgEhBiAG/QwAAAA4AAAAOAAAADgAAAA4IAf9DAAAgA8A' +
    'AIAPAACADwAAgA/9N/1O/a4BIQYgBv0MAACAAAAAgAAAAIAAAACAAP2uAf0MAACAOAAAgDgAAIA4AACAOP3lASAGIAf9DAAAAAAAAAAAAAAAAAAAAAD9N/1SIQYgBi' +
    'AF/QwAgAAAAIAAAACAAAAAgAAA/U5BEP2rAf1QIQYgACAG/QsCECAAQSBqIQAgAUEQaiEBIANBAWshAwwACwsLtwQCAX8EeyACQQN2IQMCQANAIANFDQEgAf0AAQAh' +
    'BCAE/akBIQUgBf0M/38AAP9/AAD/fwAA/38AAP1OQQ39qwEhBiAG/QwAAIAPAACADwAAgA8AAIAP/U4hByAG/QwAAAA4AAAAOAAAADgAAAA4/a4BIQYgBv0MAAAAOA' +
    'AAADgAAAA4AAAAOCAH/QwAAIAPAACADwAAgA8AAIAP/Tf9Tv2uASEGIAb9DAAAgAAAAIAAAACAAAAAgAD9rgH9DAAAgDgAAIA4AACAOAAAgDj95QEgBiAH/QwAAAAA' +
    'AAAAAAAAAAAAAAAA/Tf9UiEGIAYgBf0MAIAAAACAAAAAgAAAAIAAAP1OQRD9qwH9UCEGIAAgAP0AAgAgBv3kAf0LAgAgBP2qASEFIAX9DP9/AAD/fwAA/38AAP9/AA' +
    'D9TkEN/asBIQYgBv0MAACADwAAgA8AAIAPAACAD/1OIQcgBv0MAAAAOAAAADgAAAA4AAAAOP2uASEGIAb9DAAAADgAAAA4AAAAOAAAADggB/0MAACADwAAgA8AAIAP' +
    'AACAD/03/U79rgEhBiAG/QwAAIAAAACAAAAAgAAAAIAA/a4B/QwAAIA4AACAOAAAgDgAAIA4/eUBIAYgB/0MAAAAAAAAAAAAAAAAAAAAAP03/VIhBiAGIAX9DACAAA' +
    'AAgAAAAIAAAACAAAD9TkEQ/asB/VAhBiAAIAD9AAIQIAb95AH9CwIQIABBIGohACABQRBqIQEgA0EBayEDDAALCws=',
  'base64',
);

const cell = new Float32Array(1);
const bitsOfCell = new Uint32Array(cell.buffer);

export function encodeHalf(value: number): number {
  cell[0] = value;
  const bits = bitsOfCell[0] as number;
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fff_ffff;
  if (magnitude >= 0x7f80_0000) {
    return sign | (magnitude > 0x7f80_0000 ? 0x7e00 : 0x7c00);
  }
  if (magnitude >= 0x477f_e000) {
    return sign | 0x7bff;
  }
  if (magnitude < 0x3880_0000) {
    // Adding 0.5 shifts the fraction of the subnormal float16 into the lowest bits of the sum.
    cell[0] = Math.abs(cell[0] as number) + 0.5;
    return sign | ((bitsOfCell[0] as number) - 0x3f00_0000);
  }
  return sign | ((magnitude - 0x3800_0000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13);
}

export function decodeHalf(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >>> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) {
    return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  }
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

export function plainHalfKernels(buffer: ArrayBuffer): HalfKernels {
  const floats = new Float32Array(buffer, 0, buffer.byteLength >>> 2);
  const halves = new Uint16Array(buffer, 0, buffer.byteLength >>> 1);
  return {
    encode(to, from, count) {
      for (let index = 0; index < count; index++) {
        halves[to / 2 + index] = encodeHalf(floats[from / 4 + index] as number);
      }
    },
    decode(to, from, count) {
      for (let index = 0; index < count; index++) {
        floats[to / 4 + index] = decodeHalf(halves[from / 2 + index] as number);
      }
    },
    addHalf(to, from, count) {
      for (let index = 0; index < count; index++) {
        floats[to / 4 + index] = (floats[to / 4 + index] as number) + decodeHalf(halves[from / 2 + index] as number);
      }
    },
  };
}

/** Creates conversion functions, with WebAssembly SIMD if available. SIMD is about ten times as fast as plain JavaScript. */
export function halfKernels(memory: { readonly buffer: ArrayBuffer }): HalfKernels {
  const plain = plainHalfKernels(memory.buffer);
  const wide = instantiate<HalfKernels>(MODULE_BYTES, memory);
  if (wide === null) {
    return plain;
  }
  const both = (kernel: keyof HalfKernels, toWidth: number, fromWidth: number) => (to: number, from: number, count: number) => {
    wide[kernel](to, from, count);
    const done = count - (count % 8);
    plain[kernel](to + done * toWidth, from + done * fromWidth, count - done);
  };
  return { encode: both('encode', 2, 4), decode: both('decode', 4, 2), addHalf: both('addHalf', 4, 2) };
}
