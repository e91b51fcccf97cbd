import { Buffer } from 'node:buffer';

/**
 * Returns a function that encrypts or decrypts with RC4. Each call continues the key stream of the previous call. OpenSSL 3 disables RC4 by
 * default.
 */
export function rc4(key: Uint8Array): (bytes: Uint8Array) => Buffer {
  const state = Uint8Array.from({ length: 256 }, (_, index) => index);
  const at = (index: number) => state[index] as number;
  const swap = (one: number, other: number) => {
    const kept = at(one);
    state[one] = at(other);
    state[other] = kept;
  };
  for (let i = 0, j = 0; i < 256; i++) {
    j = (j + at(i) + (key[i % key.length] as number)) & 0xff;
    swap(i, j);
  }
  let i = 0;
  let j = 0;
  return (bytes) => {
    const output = Buffer.allocUnsafe(bytes.length);
    for (let index = 0; index < bytes.length; index++) {
      i = (i + 1) & 0xff;
      j = (j + at(i)) & 0xff;
      swap(i, j);
      output[index] = (bytes[index] as number) ^ at((at(i) + at(j)) & 0xff);
    }
    return output;
  };
}
